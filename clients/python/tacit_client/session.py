"""Trades: every request is in the wallet's file before it is sent, and stays there until its outcome is known."""

import contextlib
import copy
import threading
import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeVar

from .absorb import absorb_event, join_venue
from .bodies import command_bytes
from .encoding import amount_of, count_of, member, to_base58
from .errors import MalformedAnswer, MustStop, OutcomeUnknown, ReceiptRefused, VenueProblem
from .receipts import verify_receipt
from .stream import LOGIN_REFUSED, follow_events
from .units import instrument_of, order_amount, order_min_fill, order_price, parse_amount
from .venue import Venue
from .wallet import Wallet

ORDER_LIFE_SLOTS = 3_000
_RETRY_FIRST_S, _RETRY_MAX_S = 0.05, 2.0
_NEVER = {
    *("nonce_stale", "expiry_too_soon", "order_final", "order_unknown", "order_id_taken"),
    *("note_spent", "note_wrong_mint", "collateral_insufficient", "withdraw_below_minimum"),
}
"""Codes by which the venue, after it looked for an earlier copy of the command, says that it can never apply."""
_OPEN = {"accepted", "partially_filled"}
_CREATED = {
    "place": ("/orders", "order_unknown"),
    "withdraw": ("/withdrawals", "withdrawal_unknown"),
    "reshape": ("/notes/reshape", "reshape_unknown"),
}
"""By kind: where the request goes, and its creation is shown under its id; the code of an id that was never taken."""
_OF_KEY = {"cancel_all": "/orders/cancel-all", "dead_man": "/orders/dead-man"}
"""Commands for all orders of a key: only their nonce shows their outcome, until a later one is used."""
Found = TypeVar("Found")


class Session:
    """A wallet on a venue. Events are absorbed by a thread, and every note in them is recomputed; `on_event` runs
    after the wallet took one. An error that ends the session is raised by the next call. Use as a context
    manager."""

    def __init__(
        self,
        venue: Venue,
        wallet: Wallet,
        on_event: Callable[[dict[str, Any]], None] | None = None,
        patience_s: float = 30.0,
    ):
        """
        Takes over what the venue knows of the keys and of open requests; a venue that cannot serve for a moment (503, or
        `quote_busy`) is asked again within the patience. Raises VenueProblem, OutcomeUnknown, MustStop, OSError; wallet and venue are closed then.
        """
        self.venue, self.wallet, self.patience_s = venue, wallet, patience_s
        self._on_event = on_event
        self._changed = threading.Condition(threading.RLock())
        self._ended, self._failure = threading.Event(), None
        self._sending = threading.Lock()
        self._instruments: dict[str, dict[str, Any]] = {}
        self.receipt_seq = 0
        """Journal seq of the newest receipt verified."""
        self._sent_in: dict[str, int] = {}
        """The epoch in which this session sent a request first."""
        self._follower = threading.Thread(target=self._follow, daemon=True)
        try:
            self._align_in_time()
            self._follower.start()
            for request in self.open_requests:
                self.settle(request["id"])
        except BaseException:
            # No caller has this session to close it: its thread and the wallet's lock would stay.
            self.close()
            raise

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Saves and releases the wallet, and ends the stream. Raises OSError."""
        self._ended.set()
        if self._follower.is_alive():
            self._follower.join(timeout=15)
        self.venue.close()
        with self._changed:
            try:
                self.wallet.save()
            finally:
                self.wallet.close()

    def _align_in_time(self) -> None:
        deadline = time.monotonic() + self.patience_s
        while True:
            try:
                return self._align()
            except VenueProblem as problem:
                is_away = problem.status == 503 or problem.code == "quote_busy"
                if not is_away or time.monotonic() > deadline:
                    raise
            time.sleep(_RETRY_MAX_S / 4)

    def _align(self) -> None:
        """Counters never fall behind the venue's of a key."""
        join_venue(self.wallet, self.venue.info)
        for key_index in range(len(self.wallet.state["keys"])):
            key = to_base58(self.wallet.trading_key(key_index))
            self.wallet.align(key_index, self.venue.own("GET", "/nonces", trading_key=key))

    @property
    def open_requests(self) -> list[dict[str, Any]]:
        """Requests whose outcome is not known."""
        return list(self.wallet.state.get("requests", []))

    def instrument(self, symbol: str) -> dict[str, Any]:
        if symbol not in self._instruments:
            self._instruments[symbol] = instrument_of(self.venue.get(f"/instruments/{symbol}"), symbol)
        return self._instruments[symbol]

    def place(
        self,
        symbol: str,
        side: str,
        amount: str | Decimal | int,
        price: str | Decimal | int,
        *,
        type: str = "limit",
        min_fill: str | Decimal | int = 0,
        life_slots: int = ORDER_LIFE_SLOTS,
    ) -> str:
        """
        Places an order on the smallest note that covers it and returns its id. A decimal is in whole tokens and quote
        tokens per base token, an int in base units and quote units per whole base token. Raises InexactValue, NoNote,
        VenueProblem (the venue refused it, and the note is free), OutcomeUnknown, MustStop.
        """
        instrument = self.instrument(symbol)
        terms = {
            **{"side": side, "type": type},
            **{"amount": order_amount(instrument, amount), "price_limit": order_price(instrument, price)},
            **{"min_fill": order_min_fill(instrument, min_fill, order_amount(instrument, amount))},
            **{"expiry_slot": self._expiry(life_slots)},
        }

        def prepare() -> dict[str, Any]:
            request = self.wallet.prepare_place(self.venue.venue_id, instrument, **terms)
            key_index = self._order(request["order_id"])["key_index"]
            return {"kind": "place", "id": request["order_id"], "key_index": key_index, "request": request}

        return self._submit(prepare)["id"]

    def cancel(self, order_id: str) -> None:
        """Cancels an order of the wallet. Raises VenueProblem, such as `order_final`; OutcomeUnknown, MustStop, KeyError."""

        def prepare() -> dict[str, Any]:
            request = self.wallet.prepare_cancel(self.venue.venue_id, order_id)
            key_index = self._order(order_id)["key_index"]
            return {"kind": "cancel", "id": _cancel_id(request), "key_index": key_index, "order_id": order_id, "request": request}

        self._settle_of_key(self._order(order_id)["key_index"])
        self._submit(prepare)

    def cancel_all(self, symbol: str | None = None, *, key_index: int = 0) -> None:
        """Cancels all orders of a trading key, or those in one instrument. Raises VenueProblem, OutcomeUnknown, MustStop."""
        self._send_of_key("cancel_all", key_index, {} if symbol is None else {"symbol": symbol})

    def dead_man(self, timeout_slots: int, *, key_index: int = 0) -> None:
        """
        The venue cancels all orders of a trading key unless another timer follows within `timeout_slots`; 0 disarms it. Raises
        as `cancel_all`.
        """
        self._send_of_key("dead_man", key_index, {"timeout_slots": timeout_slots})

    def _send_of_key(self, kind: str, key_index: int, terms: dict[str, Any]) -> None:
        def prepare() -> dict[str, Any]:
            request = self.wallet.prepare_of_key(kind, self.venue.venue_id, key_index, **terms)
            return {"kind": kind, "id": _cancel_id(request), "key_index": key_index, "request": request}

        self._settle_of_key(key_index)
        self._submit(prepare)

    def _settle_of_key(self, key_index: int) -> None:
        for sent in self.open_requests:
            if sent["kind"] in _OF_KEY and sent["key_index"] == key_index:
                self.settle(sent["id"])

    def withdraw(
        self, mint: str, amount: str | Decimal | int, destination: str, *, life_slots: int = ORDER_LIFE_SLOTS
    ) -> str:
        """
        Pays out of the smallest note that covers amount and fee, to a token account, and returns the withdrawal's id. An int
        is in base units. Raises as `place`; ValueError for a mint that the venue does not have.
        """
        listed = member(self.venue.get("/transparency"), "mints", list)
        terms = next((one for one in listed if member(one, "mint", str) == mint), None)
        if terms is None:
            raise ValueError("the venue does not have this mint")
        units = amount if type(amount) is int else parse_amount(amount, count_of(terms, "decimals", 18))
        needed, expiry_slot = units + amount_of(terms, "withdraw_fee"), self._expiry(life_slots)

        def prepare() -> dict[str, Any]:
            note, venue_id = self.wallet.note_for(mint, needed), self.venue.venue_id
            own_id, request = self.wallet.prepare_withdrawal(venue_id, note, destination, units, expiry_slot)
            return {"kind": "withdraw", "id": own_id, "key_index": note["key_index"], "request": request}

        return self._submit(prepare)["id"]

    def reshape(
        self, notes: list[dict[str, Any]], amounts: list[int], *, life_slots: int = ORDER_LIFE_SLOTS
    ) -> str:
        """
        Merges up to four free notes of one key and mint, or splits one, and returns the reshape's id. `amounts`, in base
        units, sum to those of the notes. Raises ValueError when they do not or a note is not free; else as `place`.
        """
        commitments, expiry_slot = [note["commitment"] for note in notes], self._expiry(life_slots)

        def prepare() -> dict[str, Any]:
            # As they are now: an event may have changed them meanwhile.
            own = [note for note in map(self.wallet.note, commitments) if note is not None]
            own_id, request = self.wallet.prepare_reshape(self.venue.venue_id, own, amounts, expiry_slot)
            return {"kind": "reshape", "id": own_id, "key_index": own[0]["key_index"], "request": request}

        return self._submit(prepare)["id"]

    def settle(self, command_id: str) -> None:
        """Goes on with a request whose outcome was unknown. Raises as `place`; KeyError when no such request is open."""
        for sent in self.open_requests:
            if sent["id"] == command_id:
                with self._sending:
                    self._conclude(sent, sent_before=True)
                return
        raise KeyError("no such request is open")

    def until(self, find: Callable[[Wallet], Found | None], timeout_s: float = 60.0) -> Found:
        """The first value of `find` that is not None; it is asked after each event. Raises TimeoutError, MustStop."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while (found := find(self.wallet)) is None:
                self._require_open()
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError("the awaited event did not come")
                self._changed.wait(left)
            return found

    # Requests.

    def _submit(self, prepare: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        with self._sending:
            with self._changed:
                self._require_open()
                before = copy.deepcopy(self.wallet.state)
                try:
                    sent = {**prepare(), "after_seq": self.receipt_seq}
                    self.wallet.state.setdefault("requests", []).append(sent)
                    self.wallet.save()
                except BaseException:
                    # Nothing was sent: a later save must not keep a request that no caller expects.
                    self.wallet.state.clear()
                    self.wallet.state.update(before)
                    raise
            self._sent_in[sent["id"]] = self.venue.epoch
            self._conclude(sent, sent_before=False)
            return sent

    def _expiry(self, life_slots: int) -> int:
        return count_of(self.venue.get("/time"), "slot") + life_slots

    def _order(self, order_id: str) -> dict[str, Any]:
        order = self.wallet.order(order_id)
        if order is None:
            raise KeyError("the wallet has no such order")
        return order

    def _send(self, sent: dict[str, Any]) -> dict[str, Any]:
        if sent["kind"] == "cancel":
            return self.venue.own("DELETE", f"/orders/{sent['order_id']}", sent["request"])
        path = _OF_KEY.get(sent["kind"]) or _CREATED[sent["kind"]][0]
        return self.venue.own("POST", path, sent["request"])

    def _conclude(self, sent: dict[str, Any], sent_before: bool) -> None:
        """Sends the same bytes until the outcome is known; after the first attempt a refusal alone proves nothing."""
        if sent["kind"] not in (*_CREATED, *_OF_KEY, "cancel"):
            raise MustStop("an open request of this wallet is of another kind: settle it by the program that sent it")
        deadline, wait_s = time.monotonic() + self.patience_s, _RETRY_FIRST_S
        while True:
            try:
                return self._accepted(sent, self._send(sent), answered=True)
            except VenueProblem as problem:
                if problem.code in LOGIN_REFUSED:
                    raise
                if problem.code == "order_exists":
                    return self._accepted(sent, problem.problem.get("result"), answered=not sent_before)
                verdict = self._judge(sent, problem, sent_before)
                if verdict is True:
                    return self._accepted(sent, None, answered=False)
                if verdict is False:
                    self._refused(sent)
                    if problem.code == "nonce_stale":
                        # Another program uses the key: the next request has a later nonce.
                        with contextlib.suppress(VenueProblem, OSError, ValueError):
                            self._align()
                    raise
                wait_s = max(wait_s, problem.retry_after_s)
            except (OSError, ValueError):
                pass
            sent_before = True
            if self._ended.is_set() or time.monotonic() + wait_s > deadline:
                raise OutcomeUnknown(sent["id"])
            time.sleep(wait_s)
            wait_s = min(2 * wait_s, _RETRY_MAX_S)

    def _judge(self, sent: dict[str, Any], problem: VenueProblem, sent_before: bool) -> bool | None:
        """Whether the command was applied; None while that is open."""
        if problem.applied != "no":
            return None
        if not sent_before:
            return False
        if problem.code not in _NEVER:
            return None
        # A key signs one command per nonce, so the last one used is this command's or a later one's.
        is_last = problem.problem.get("nonce_last") == sent["request"].get("cancel_nonce")
        if sent["kind"] in _OF_KEY:
            return True if is_last else None
        path, unknown = _CREATED.get(sent["kind"], _CREATED["place"])
        try:
            shown = self.venue.own("GET", f"{path}/{sent.get('order_id', sent['id'])}")
            status = member(shown, "status", str)
        except VenueProblem as missing:
            return False if sent["kind"] in _CREATED and missing.code == unknown else None
        except (OSError, ValueError):
            return None
        if sent["kind"] in _CREATED or "pending" in shown or status not in _OPEN:
            return True
        return True if is_last else None

    def _accepted(self, sent: dict[str, Any], result: Any, answered: bool) -> None:
        """Raises ReceiptRefused for a false one, and for an answer to the command itself that has none."""
        receipt = result.get("receipt") if isinstance(result, dict) else None
        if receipt is not None or answered:
            epoch = self._epoch_of(receipt)
            identity = self.venue.identity(epoch)
            if epoch > self.venue.epoch or epoch < self._sent_in.get(sent["id"], 0):
                raise ReceiptRefused("the receipt is of an epoch that has not begun, or had ended before the command was sent")
            # An epoch between two that this session saw cannot be verified any more, nor can one before it.
            if identity is not None:
                command = command_bytes(sent["kind"], self.venue.venue_id, sent["request"], sent.get("order_id"))
                verify_receipt(receipt, identity, command, sent["after_seq"])
                self.receipt_seq = max(self.receipt_seq, receipt["seq"])
        self._forget(sent)

    def _epoch_of(self, receipt: Any) -> int:
        try:
            return count_of(receipt, "epoch")
        except MalformedAnswer as error:
            raise ReceiptRefused("the answer has no receipt") from error

    def _refused(self, sent: dict[str, Any]) -> None:
        with self._changed:
            if sent["kind"] == "place":
                self.wallet.drop_refused(sent["id"])
            elif sent["kind"] in _CREATED:
                self.wallet.drop_refused_payment(sent["id"])
            self._forget(sent)

    def _forget(self, sent: dict[str, Any]) -> None:
        with self._changed:
            requests = self.wallet.state["requests"]
            self.wallet.state["requests"] = [one for one in requests if one["id"] != sent["id"]]
            self.wallet.save()

    # Events.

    def _require_open(self) -> None:
        if self._failure is not None:
            raise MustStop("the session has ended") from self._failure
        if self._ended.is_set():
            raise MustStop("the session is closed")

    def _follow(self) -> None:
        try:
            for event in follow_events(self.venue, self.wallet.state["seq"], self._ended):
                with self._changed:
                    absorb_event(self.wallet, self.venue.info["generation"], event)
                    self.wallet.save()
                if self._on_event is not None:
                    self._on_event(event)
                with self._changed:
                    self._changed.notify_all()
        except BaseException as failure:
            self._failure = failure
        finally:
            self._ended.set()
            with self._changed:
                self._changed.notify_all()


def _cancel_id(request: dict[str, Any]) -> str:
    return f"{request['trading_key']}/{request['cancel_nonce']}"
