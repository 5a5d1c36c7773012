"""Trades on a venue: login, a refusal, place, cancel, then an order that rests until its fill is final."""

import json
import socket
import sys
from pathlib import Path
from urllib.parse import urlsplit

from tacit_client import InexactValue, PinMismatch, Session, Venue, VenueProblem, Wallet, WrongAccount
from tacit_client.venue import pinned_context

url, certificate, login_path, wallet_path = sys.argv[1:]
with open(login_path) as file:
    login = json.load(file)


def say(**facts):
    print(json.dumps(facts), flush=True)


host, port = urlsplit(url).hostname, urlsplit(url).port
try:
    with socket.create_connection((host, port)) as plain:
        pinned_context(bytes(32), Path(certificate).read_text()).wrap_socket(plain, server_hostname=host)
    raise SystemExit("another TLS key than the pinned one was accepted")
except PinMismatch:
    pass
try:
    Venue(url, {**login, "account_id": "00" * 32}, certificate=certificate).token()
    raise SystemExit("a login to another account was accepted")
except WrongAccount:
    pass

events = []
venue = Venue(url, login, certificate=certificate)
with Session(venue, Wallet.load(wallet_path), on_event=events.append) as session:
    wallet = session.wallet
    for amount, price in (("0.0000001", "150"), ("1", "150.0000001"), ("-1", "150")):
        try:
            session.place("SOL-USDC", "buy", amount, price)
            raise SystemExit("an inexact value was sent")
        except InexactValue:
            pass
    before = {mint: wallet.balance(mint) for mint in {note["mint"] for note in wallet.state["notes"]}}

    resting = session.place("SOL-USDC", "buy", "1", "145")
    assert venue.own("GET", f"/orders/{resting}")["status"] == "accepted"
    session.cancel(resting)
    session.until(lambda w: not w.order(resting)["open"] or None)
    assert not [note for note in wallet.state["notes"] if note["state"] != "free"]
    try:
        session.cancel(resting)
        raise SystemExit("a final order was cancelled")
    except VenueProblem as problem:
        assert (problem.status, problem.code, problem.applied) == (409, "order_final", "no")
    assert wallet.state["requests"] == []
    # The receipts of place and cancel were verified: later journal positions than none.
    assert session.receipt_seq > 0
    assert {mint: wallet.balance(mint) for mint in before} == before

    another = session.place("SOL-USDC", "buy", "1", "144", min_fill="0.5")
    session.dead_man(3_000)
    session.dead_man(0)
    session.cancel_all("SOL-USDC")
    session.until(lambda w: not w.order(another)["open"] or None)
    assert venue.own("GET", f"/orders/{another}")["min_fill"] == "500000000"

    order = session.place("SOL-USDC", "buy", "1", "150", min_fill="0")
    say(resting=order)
    final = session.until(
        lambda w: next((e for e in events if e["kind"] == "fill.finalized" and e["data"]["order_id"] == order), None)
    )
    session.until(lambda w: not w.order(order)["open"] or None)
    mints = {note["mint"] for note in wallet.state["notes"]}
    say(
        order=order,
        signature=final["data"]["signature"],
        balances={mint: str(wallet.balance(mint)) for mint in sorted(mints)},
        fees=wallet.state["fees"],
        free=sum(note["state"] == "free" for note in wallet.state["notes"]),
    )
