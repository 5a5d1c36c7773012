"""Derives and signs the requests of a wallet from its one seed."""

import os
from typing import Any

from .bodies import body_id, body_of_request
from .encoding import JSON_INTEGER_MAX, amount_of, from_base58, to_base58
from .errors import NoNote, WalletMismatch
from .notes import (
    ANCHORS_PER_COMMAND,
    derive_anchor,
    derive_order_id,
    derive_trading_key,
    public_key_of,
    sign,
)
from .units import fee_up_to, quote_amount
from .wallet_file import WalletFile

_ANCHOR_COUNT = 4


class Wallet:
    """One seed, the counters of its derived values, its notes and its orders. `state` has the form of the wallet
    file: amounts are decimal strings of base units."""

    def __init__(self, seed: bytes, state: dict[str, Any] | None = None, file: WalletFile | None = None):
        if len(seed) != 32:
            raise ValueError("a seed has 32 bytes")
        self.seed, self.file = seed, file
        empty: dict[str, Any] = {"keys": [], "notes": [], "orders": [], "payments": [], "fees": [], "seq": 0}
        self.state: dict[str, Any] = state or empty
        self._keys: dict[int, tuple[bytes, bytes]] = {}

    @classmethod
    def load(cls, path: str, password: str | None = None) -> "Wallet":
        """
        Locks the file until `close`, and reads it. Raises FileNotFoundError, WalletInUse; ValueError when the file is no
        wallet, when others may read it, and for another password.
        """
        file = WalletFile(path, password)
        os.lstat(path)
        file.lock()
        try:
            return cls(*file.read(), file)
        except BaseException:
            file.release()
            raise

    def save(self) -> None:
        """On disk when it returns. Raises OSError; the previous file is left then."""
        if self.file is not None:
            self.file.write(self.seed, self.state)

    def close(self) -> None:
        """Releases the file; a wallet that is closed is not saved any more."""
        if self.file is not None:
            self.file.release()
            self.file = None

    def _pair(self, key_index: int) -> tuple[bytes, bytes]:
        if key_index not in self._keys:
            seed = derive_trading_key(self.seed, key_index)
            self._keys[key_index] = (seed, public_key_of(seed))
        return self._keys[key_index]

    def trading_key(self, key_index: int) -> bytes:
        return self._pair(key_index)[1]

    def counters(self, key_index: int) -> dict[str, int]:
        keys = self.state["keys"]
        while len(keys) <= key_index:
            keys.append({"commands": 0, "deposits": 0, "cancels": 0})
        return keys[key_index]

    def note(self, commitment: str) -> dict[str, Any] | None:
        return next((note for note in self.state["notes"] if note["commitment"] == commitment), None)

    def order(self, order_id: str | None) -> dict[str, Any] | None:
        return next((order for order in self.state["orders"] if order["order_id"] == order_id), None)

    def payment(self, payment_id: str) -> dict[str, Any] | None:
        return next((payment for payment in self.state["payments"] if payment["id"] == payment_id), None)

    def align(self, key_index: int, nonces: Any) -> None:
        """Counters never fall behind the venue's of a key. Raises WalletMismatch for a counter that no wallet
        can have used."""
        counters = self.counters(key_index)
        for name, seen, below in (
            ("commands", "place_nonce", 2**32 // ANCHORS_PER_COMMAND),
            ("cancels", "cancel_nonce", JSON_INTEGER_MAX),
        ):
            count = amount_of(nonces, seen)
            if count >= below:
                raise WalletMismatch("a nonce of the venue is one that no wallet can have used")
            counters[name] = max(counters[name], count)

    def free_notes(self, mint: str) -> list[dict[str, Any]]:
        return [note for note in self.state["notes"] if note["mint"] == mint and note["state"] == "free"]

    def balance(self, mint: str) -> int:
        """Base units in unspent notes, pending ones included."""
        return sum(int(n["amount"]) for n in self.state["notes"] if n["mint"] == mint and n["state"] != "spent")

    def note_for(self, mint: str, amount: int) -> dict[str, Any]:
        """The smallest free note that covers `amount`. Raises NoNote."""
        fitting = [note for note in self.free_notes(mint) if int(note["amount"]) >= amount]
        if not fitting:
            raise NoNote(mint, amount)
        return min(fitting, key=lambda note: int(note["amount"]))

    # Requests. A request is final: after a lost answer the same bytes are sent again.

    def prepare_place(
        self, venue: bytes, instrument: dict[str, Any], note: dict[str, Any] | None = None, **terms: Any
    ) -> dict[str, Any]:
        """
        A place request on `note`, or on the smallest one that covers it. Terms: side, type, amount and min_fill in base
        units, price_limit in quote units per whole base token, expiry_slot. Raises NoNote.
        """
        buys, amount = terms["side"] == "buy", terms["amount"]
        quote = quote_amount(amount, terms["price_limit"], instrument["base_decimals"])
        needed = quote + fee_up_to(quote, instrument["fee_bps"]) if buys else amount
        note = note or self.note_for(instrument["quote_mint" if buys else "base_mint"], needed)
        if note["state"] != "free":
            raise ValueError("the note is not free")
        key_index = note["key_index"]
        command = self._next_command(key_index)
        unsigned = {
            "order_id": derive_order_id(self.seed, key_index, command).hex(),
            "trading_key": to_base58(self.trading_key(key_index)),
            "symbol": instrument["symbol"],
            "side": terms["side"],
            "type": terms.get("type", "limit"),
            "amount": str(amount),
            "price_limit": str(terms["price_limit"]),
            "min_fill": str(terms.get("min_fill", 0)),
            "expiry_slot": terms["expiry_slot"],
            "nonce": str(command + 1),
            "collateral_commitment": note["commitment"],
            "continuation_anchors": [self._anchor(key_index, command, at) for at in range(_ANCHOR_COUNT)],
        }
        signature = self._sign(key_index, body_of_request("place", venue, unsigned))
        note["state"] = "pending"
        kept = ("order_id", "nonce", "symbol", "side", "price_limit")
        fixed = ("base_mint", "quote_mint", "base_decimals", "fee_bps")
        self.state["orders"].append(
            {
                **{name: unsigned[name] for name in kept},
                **{name: instrument[name] for name in fixed},
                **{"key_index": key_index, "command": command, "anchor_count": _ANCHOR_COUNT},
                **{"collateral": note["commitment"], "consumed": [], "open": True},
                **{"filled": "0", "quote": "0", "fee": "0"},
            }
        )
        return {**unsigned, "signature": signature, "opening": _opening(note)}

    def prepare_cancel(self, venue: bytes, order_id: str) -> dict[str, Any]:
        """Raises KeyError for an order that is not in the wallet."""
        order = self.order(order_id)
        if order is None:
            raise KeyError("the wallet has no such order")
        counters = self.counters(order["key_index"])
        counters["cancels"] += 1
        key = to_base58(self.trading_key(order["key_index"]))
        unsigned = {"trading_key": key, "cancel_nonce": str(counters["cancels"])}
        body = body_of_request("cancel", venue, unsigned, order_id)
        return {**unsigned, "signature": self._sign(order["key_index"], body)}

    def prepare_of_key(self, kind: str, venue: bytes, key_index: int, **terms: Any) -> dict[str, Any]:
        """A `cancel_all` or `dead_man` request of a trading key."""
        counters = self.counters(key_index)
        counters["cancels"] += 1
        key = to_base58(self.trading_key(key_index))
        unsigned = {"trading_key": key, "cancel_nonce": str(counters["cancels"]), **terms}
        return {**unsigned, "signature": self._sign(key_index, body_of_request(kind, venue, unsigned))}

    def prepare_withdrawal(
        self, venue: bytes, note: dict[str, Any], destination: str, amount: int, expiry_slot: int
    ) -> tuple[str, dict[str, Any]]:
        """
        Id and request that pay `amount` of a note to a token account; the mint's fee is added, the rest comes back as change.
        Raises ValueError when the destination is no address.
        """
        from_base58(destination)
        command = self._next_command(note["key_index"])
        unsigned = {
            "trading_key": to_base58(self.trading_key(note["key_index"])),
            "commitment": note["commitment"],
            "destination": destination,
            "amount": str(amount),
            "nonce": str(command + 1),
            "expiry_slot": expiry_slot,
            "change_anchor": self._anchor(note["key_index"], command),
        }
        return self._pay("withdrawal", venue, [note], [amount], command, unsigned)

    def prepare_reshape(
        self, venue: bytes, notes: list[dict[str, Any]], amounts: list[int], expiry_slot: int
    ) -> tuple[str, dict[str, Any]]:
        """
        Id and request that merge up to four notes of one key and mint, or split one. Raises ValueError unless the amounts sum
        to those of the notes.
        """
        owners = {(note["key_index"], note["mint"]) for note in notes}
        if len(owners) != 1 or sum(amounts) != sum(int(note["amount"]) for note in notes):
            raise ValueError("expected notes of one key and mint, and amounts with the same sum")
        key_index = notes[0]["key_index"]
        command = self._next_command(key_index)
        ascending = sorted(notes, key=lambda note: note["commitment"])
        unsigned = {
            "trading_key": to_base58(self.trading_key(key_index)),
            "inputs": [note["commitment"] for note in ascending],
            "amounts": [str(amount) for amount in amounts],
            "anchor": self._anchor(key_index, command),
            "nonce": str(command + 1),
            "expiry_slot": expiry_slot,
        }
        return self._pay("reshape", venue, ascending, amounts, command, unsigned)

    def _pay(
        self,
        kind: str,
        venue: bytes,
        notes: list[dict[str, Any]],
        amounts: list[int],
        command: int,
        unsigned: dict[str, Any],
    ) -> tuple[str, dict[str, Any]]:
        key_index = notes[0]["key_index"]
        if any(note["state"] != "free" for note in notes):
            raise ValueError("a note is not free")
        body = body_of_request("withdraw" if kind == "withdrawal" else kind, venue, unsigned)
        for note in notes:
            note["state"] = "pending"
        payment = {
            **{"id": body_id(body), "kind": kind, "key_index": key_index, "command": command},
            **{"inputs": [note["commitment"] for note in notes], "amounts": [str(amount) for amount in amounts]},
        }
        self.state["payments"].append(payment)
        openings = [_opening(note) for note in notes]
        opened = {"opening": openings[0]} if kind == "withdrawal" else {"openings": openings}
        return payment["id"], {**unsigned, "signature": self._sign(key_index, body), **opened}

    def _next_command(self, key_index: int) -> int:
        counters = self.counters(key_index)
        counters["commands"] += 1
        return counters["commands"] - 1

    def _anchor(self, key_index: int, command: int, at: int = 0) -> str:
        return derive_anchor(self.seed, key_index, ANCHORS_PER_COMMAND * command + at).hex()

    def _sign(self, key_index: int, body: bytes) -> str:
        return sign(self._pair(key_index)[0], body).hex()

    def drop_refused(self, order_id: str) -> None:
        """Frees the note of an order that the venue never took; its nonce stays used."""
        order = self.order(order_id)
        if order is not None:
            order["open"] = False
            if not self.is_backing(order["collateral"]):
                self.release(order["collateral"])

    def drop_refused_payment(self, payment_id: str) -> None:
        """The same for a withdrawal or reshape."""
        payment = self.payment(payment_id)
        if payment is not None:
            self.state["payments"].remove(payment)
            for commitment in payment["inputs"]:
                self.release(commitment)

    def release(self, commitment: str) -> None:
        """Frees the pending note of a command that will not settle."""
        note = self.note(commitment)
        if note is not None and note["state"] == "pending":
            note["state"] = "free"

    def is_backing(self, commitment: str) -> bool:
        """Whether an order may still consume the note: it is open, or fills of it are to be absorbed."""
        return any(
            order["open"] or order["filled"] != order.get("filled_final", order["filled"])
            for order in self.state["orders"]
            if order["collateral"] == commitment
        )

    def add_note(self, note: dict[str, Any]) -> None:
        """A known note keeps its state, except that a free one becomes pending."""
        known = self.note(note["commitment"])
        if known is None:
            self.state["notes"].append(note)
        elif known["state"] == "free":
            known["state"] = note["state"]

    def fees(self, mint: str) -> int:
        """Base units paid so far."""
        return sum(int(fee["amount"]) for fee in self.state["fees"] if fee["mint"] == mint)

    def pay_fee(self, mint: str, amount: int) -> None:
        for fee in self.state["fees"]:
            if fee["mint"] == mint:
                fee["amount"] = str(int(fee["amount"]) + amount)
                return
        self.state["fees"].append({"mint": mint, "amount": str(amount)})


def _opening(note: dict[str, Any]) -> dict[str, Any]:
    """Every request carries it: the venue may not know the note yet."""
    return {name: note[name] for name in ("mint", "amount", "blinding", "leaf_index") if name in note}
