"""Keeps a wallet in the same file as the `tacit` commands, signs its requests, and applies events to its notes."""

import json
import os
from pathlib import Path
from typing import Any

from .bodies import body_of_request
from .encoding import from_base58, from_hex, to_base58
from .errors import MustStop, NoNote, WalletMismatch
from .notes import (
    ANCHORS_PER_COMMAND,
    commitment_of,
    derive_anchor,
    derive_order_id,
    derive_trading_key,
    output_blinding,
    public_key_of,
    sign,
)
from .units import fee_up_to, quote_amount

_VERSION = 1
_ANCHOR_COUNT = 4
_FINAL = {"order.filled", "order.cancelled", "order.expired", "order.replaced"}


class Wallet:
    """
    One seed, the counters of what was derived from it, its notes and its orders. `state` has the form of the wallet file:
    amounts are decimal strings of base units. One program at a time uses a file.
    """

    def __init__(self, seed: bytes, path: str | None = None, state: dict[str, Any] | None = None):
        if len(seed) != 32:
            raise ValueError("a seed has 32 bytes")
        self.seed, self.path = seed, path
        empty: dict[str, Any] = {"keys": [], "notes": [], "orders": [], "payments": [], "fees": [], "seq": 0}
        self.state: dict[str, Any] = state or empty
        self._keys: dict[int, tuple[bytes, bytes]] = {}

    @classmethod
    def load(cls, path: str) -> "Wallet":
        """Raises FileNotFoundError, and ValueError when the file is no wallet of this version."""
        content = json.loads(Path(path).read_text())
        if content.get("version", 1) != _VERSION or not isinstance(content.get("state"), dict):
            raise ValueError("this file is not a wallet that this program reads")
        return cls(from_hex(content["seed"], 32), path, content["state"])

    def save(self) -> None:
        """Content and name are on disk when it returns; an interrupted save leaves the previous file."""
        if self.path is None:
            return
        content = {"version": _VERSION, "seed": self.seed.hex(), "state": self.state}
        following = f"{self.path}.new"
        handle = os.open(following, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(json.dumps(content, indent=1) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(following, self.path)
        folder = os.open(os.path.dirname(self.path) or ".", os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

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
        key_index, counters = note["key_index"], self.counters(note["key_index"])
        command = counters["commands"]
        counters["commands"] += 1
        first = ANCHORS_PER_COMMAND * command
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
            "continuation_anchors": [
                derive_anchor(self.seed, key_index, first + at).hex() for at in range(_ANCHOR_COUNT)
            ],
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
        opening = {name: note[name] for name in ("mint", "amount", "blinding", "leaf_index") if name in note}
        return {**unsigned, "signature": signature, "opening": opening}

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

    def _sign(self, key_index: int, body: bytes) -> str:
        return sign(self._pair(key_index)[0], body).hex()

    def drop_refused(self, order_id: str) -> None:
        """Frees the note of an order that the venue never took; its nonce stays used."""
        order = self.order(order_id)
        if order is not None:
            order["open"] = False
            if not any(o["open"] and o["collateral"] == order["collateral"] for o in self.state["orders"]):
                self._release(order["collateral"])

    def _release(self, commitment: str) -> None:
        note = self.note(commitment)
        if note is not None and note["state"] == "pending":
            note["state"] = "free"

    # Events.

    def absorb(self, generation: int, event: dict[str, Any]) -> None:
        """
        Applies an event in seq order; one already absorbed changes nothing. Every note that it names is recomputed. Raises
        WalletMismatch, and MustStop for an own withdrawal or reshape, which the `tacit` commands absorb.
        """
        if event["seq"] <= self.state["seq"]:
            return
        kind, data = event["kind"], event["data"]
        if kind == "fill.matched":
            self._absorb_fill(generation, data)
        elif kind == "fill.voided":
            self._absorb_voided(data)
        elif kind in _FINAL:
            self._absorb_final(data)
        elif kind == "order.replace_refused":
            self._absorb_refused(data)
        elif kind.startswith(("withdrawal.", "reshape.")):
            own = {payment["id"] for payment in self.state["payments"]}
            if data.get("withdrawal_id", data.get("reshape_id")) in own:
                raise MustStop("a withdrawal or reshape of this wallet is under way: follow it by the command line")
        elif kind == "note.exited":
            note = self.note(data["commitment"])
            if note is not None and note["state"] == "free":
                note["state"] = "pending"
        self.state["seq"] = event["seq"]

    def _absorb_final(self, data: dict[str, Any]) -> None:
        """Frees the collateral once every fill is absorbed: fill events may follow the closing one."""
        order = self.order(data["order_id"])
        if order is None:
            return
        order["open"], order["filled_final"] = False, data["filled_amount"]
        heir = self.order(data.get("replaced_by"))
        if order["filled"] == order["filled_final"] and (heir is None or heir["collateral"] != order["collateral"]):
            self._release(order["collateral"])

    def _absorb_refused(self, data: dict[str, Any]) -> None:
        refused, old = self.order(data.get("replacement")), self.order(data["order_id"])
        if refused is not None:
            refused["open"], refused["filled_final"] = False, "0"
            if old is None or not old["open"] or old["collateral"] != refused["collateral"]:
                self._release(refused["collateral"])

    def _absorb_fill(self, generation: int, fill: dict[str, Any]) -> None:
        order = self.order(fill["order_id"])
        if order is None or fill["fill_index"] < len(order["consumed"]):
            return
        collateral = self.note(order["collateral"])
        if collateral is None or fill["fill_index"] > len(order["consumed"]):
            raise WalletMismatch("the collateral of a fill differs from what this wallet derives")
        amount, quote, fee = (int(fill[name]) for name in ("amount", "quote_amount", "fee"))
        _check_price(order, fill)
        buys = order["side"] == "buy"
        change = int(collateral["amount"]) - (quote + fee if buys else amount)
        if change < 0 or (change > 0) != ("change_commitment" in fill):
            raise WalletMismatch("the change of a fill differs from what this wallet derives")
        filled = str(int(order["filled"]) + amount)
        proceeds = (order["base_mint"], amount) if buys else (order["quote_mint"], quote - fee)
        made = []
        if proceeds[1] > 0:
            made.append(self._output(generation, order, fill, 0, *proceeds, "free"))
        if change > 0:
            state = "pending" if order["open"] or filled != order.get("filled_final") else "free"
            made.append(self._output(generation, order, fill, 1, collateral["mint"], change, state))
        for note in made:
            known = self.note(note["commitment"])
            if known is None:
                self.state["notes"].append(note)
            elif known["state"] == "free":
                known["state"] = note["state"]
        collateral["state"] = "spent"
        self._pay_fee(order["quote_mint"], fee)
        order["filled"], order["quote"] = filled, str(int(order["quote"]) + quote)
        order["fee"] = str(int(order["fee"]) + fee)
        order["consumed"].append(order["collateral"])
        order["collateral"] = fill.get("change_commitment", order["collateral"])

    def _output(
        self,
        generation: int,
        order: dict[str, Any],
        fill: dict[str, Any],
        role: int,
        mint: str,
        amount: int,
        state: str,
    ) -> dict[str, Any]:
        """The note that a fill makes, if its commitment is the one that this wallet derives. Raises WalletMismatch."""
        key_index, j = order["key_index"], fill["fill_index"]
        anchor = ANCHORS_PER_COMMAND * order["command"] + j % order["anchor_count"]
        blinding = output_blinding(
            derive_anchor(self.seed, key_index, anchor),
            from_hex(order["order_id"], 16),
            int(order["nonce"]),
            generation,
            2 * j + role,
        )
        commitment = commitment_of(self.trading_key(key_index), from_base58(mint), amount, blinding).hex()
        origin = ("proceeds", "change")[role]
        if commitment != fill[f"{origin}_commitment"]:
            raise WalletMismatch(f"a {origin} note differs from what this wallet derives")
        return {
            **{"commitment": commitment, "key_index": key_index, "mint": mint, "amount": str(amount)},
            **{"blinding": blinding.hex(), "state": state, "origin": origin},
        }

    def _absorb_voided(self, fill: dict[str, Any]) -> None:
        """A fill that never reaches the chain: its notes do not exist, and the one it consumed is unspent."""
        order = self.order(fill["order_id"])
        if order is None or fill["fill_index"] >= len(order["consumed"]):
            return
        gone = {fill.get("proceeds_commitment"), fill.get("change_commitment")}
        self.state["notes"] = [note for note in self.state["notes"] if note["commitment"] not in gone]
        note = self.note(order["consumed"][fill["fill_index"]])
        if note is not None and note["state"] == "spent":
            note["state"] = "free"
        self._pay_fee(order["quote_mint"], -int(fill["fee"]))

    def _pay_fee(self, mint: str, amount: int) -> None:
        for fee in self.state["fees"]:
            if fee["mint"] == mint:
                fee["amount"] = str(int(fee["amount"]) + amount)
                return
        self.state["fees"].append({"mint": mint, "amount": str(amount)})


def _check_price(order: dict[str, Any], fill: dict[str, Any]) -> None:
    """The price is within the limit, the quote amount is exact, and the fees are within the signed terms."""
    price, limit, quote, fee = int(fill["price"]), int(order["price_limit"]), int(fill["quote_amount"]), int(fill["fee"])
    worse = price > limit if order["side"] == "buy" else price < limit
    if worse or int(fill["amount"]) * price != quote * 10 ** order["base_decimals"]:
        raise WalletMismatch("the price of a fill is outside the order's terms")
    if not 0 <= fee <= fee_up_to(int(order["quote"]) + quote, order["fee_bps"]) - int(order["fee"]):
        raise WalletMismatch("the fee of a fill is outside the order's terms")
