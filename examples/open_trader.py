"""Opens a session on the venue that `start` runs on this machine, and keeps books of its fills."""

import json
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tacit_client import NoNote, OutcomeUnknown, Session, Venue, VenueProblem, Wallet

SYMBOL = "SOL-USDC"


class Books:
    """Changes by the fills of this run, in base units of each mint; the wallet is not asked."""

    def __init__(self) -> None:
        self.fills = self.base = self.quote = self.fees = 0

    def book(self, event: dict[str, Any]) -> None:
        if event["kind"] != "fill.matched":
            return
        fill = event["data"]
        sign = 1 if fill["side"] == "buy" else -1
        self.fills += 1
        self.base += sign * int(fill["amount"])
        self.quote -= sign * int(fill["quote_amount"]) + int(fill["fee"])
        self.fees += int(fill["fee"])


def open_trader(data: str, wallet: str, login: str) -> tuple[Session, Books]:
    """Arguments: folder of the venue's data, wallet file, login file."""
    books = Books()
    venue = Venue.laptop(data, json.loads(Path(login).read_text()))
    return Session(venue, Wallet.load(wallet), on_event=books.book), books


def trading(seconds: float) -> Callable[[], bool]:
    """Whether to trade on: until the time is over, or Ctrl-C."""
    over, stopped = time.monotonic() + seconds, threading.Event()
    signal.signal(signal.SIGINT, lambda *_: stopped.set())
    return lambda: not stopped.is_set() and time.monotonic() < over


def patiently(call: Callable[[], Any]) -> Any:
    """Waits while the venue is away, and settles what it left open; None when the venue refused, or no note covers it."""
    while True:
        try:
            return call()
        except OutcomeUnknown as unknown:
            return unknown.command_id
        except NoNote:
            return None
        except VenueProblem as problem:
            if problem.status < 500 and problem.status != 429:
                return None
        except OSError:
            pass
        time.sleep(0.5)


def place(session: Session, side: str, amount: str, price: str, **terms: Any) -> str | None:
    """The order's id; None when it was refused."""
    order = patiently(lambda: session.place(SYMBOL, side, amount, price, **terms))
    settle(session)
    return order


def settle(session: Session) -> None:
    """Settles every request whose outcome is open."""
    while session.open_requests:
        patiently(lambda: session.settle(session.open_requests[0]["id"]))


def end(session: Session, order: str) -> None:
    """Cancels an order unless it has ended, and waits until it has, with all its fills."""
    if session.wallet.order(order)["open"]:
        patiently(lambda: session.cancel(order))
        settle(session)
    ended(session, order)


def ended(session: Session, order: str) -> None:
    def look(wallet: Wallet) -> bool | None:
        kept = wallet.order(order)
        # A refused order never had a fill.
        return (not kept["open"] and kept["filled"] == kept.get("filled_final", "0")) or None

    session.until(look, timeout_s=120)


def close(session: Session, books: Books) -> None:
    """Ends the session and prints its books, amounts as base units."""
    wallet = session.wallet
    balances = {mint: str(wallet.balance(mint)) for mint in {note["mint"] for note in wallet.state["notes"]}}
    session.close()
    shown = {name: str(value) for name, value in vars(books).items() if name != "fills"}
    print(json.dumps({"fills": books.fills, **shown, "balances": balances}))


