"""Merges the smallest notes of a token, splits the result into equal notes, and withdraws an amount; prints the balances."""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from open_trader import open_trader, patiently, settle

MERGED_MAX, PARTS = 4, 4
POLL_S = 0.2
ENDED = {"finalized", "paid", "refunded", "voided"}

data, wallet_path, login, mint, amount, destination = sys.argv[1:]
session, _ = open_trader(data, wallet_path, login)
venue, wallet = session.venue, session.wallet


def free_notes() -> list[dict[str, Any]]:
    return sorted(wallet.free_notes(mint), key=lambda note: int(note["amount"]))


def known(call: Callable[[], str]) -> str:
    """The request's id, once its outcome is known."""
    own_id = patiently(call)
    settle(session)
    if own_id is None or wallet.payment(own_id) is None:
        raise SystemExit("the venue refused the request")
    return own_id


def ended(path: str, kind: str) -> dict[str, Any]:
    """Its last stage: a note counts once it is in the finalized tree, a payment is a transaction behind its batch."""
    while (shown := venue.own("GET", path))["status"] not in ENDED - ({"finalized"} if kind == "withdrawal" else set()):
        time.sleep(POLL_S)
    return shown


def reshape(notes: list[dict[str, Any]], amounts: list[int]) -> None:
    own_id = known(lambda: session.reshape(notes, amounts))
    status = ended(f"/notes/reshape/{own_id}", "reshape")["status"]
    if status != "finalized":
        raise SystemExit(f"the reshape ended as {status}")
    session.until(lambda _: set(amounts) <= {int(note["amount"]) for note in free_notes()} or None)


before = wallet.balance(mint)
small = free_notes()[:MERGED_MAX]
if len(small) > 1:
    reshape(small, [sum(int(note["amount"]) for note in small)])
if not free_notes():
    raise SystemExit("the wallet has no free note of this token")
largest = free_notes()[-1]
part = int(largest["amount"]) // PARTS
reshape([largest], [part] * (PARTS - 1) + [int(largest["amount"]) - (PARTS - 1) * part])
withdrawal = ended(f"/withdrawals/{known(lambda: session.withdraw(mint, amount, destination))}", "withdrawal")
session.until(lambda w: len(w.free_notes(mint)) >= PARTS - 1 or None)
shown = {
    **{"before": str(before), "after": str(wallet.balance(mint)), "fee": withdrawal["fee"]},
    **{"notes": len(free_notes()), "withdrawal": withdrawal["status"]},
}
session.close()
print(json.dumps(shown))
