"""Applies account events to a wallet; every note that an event names is recomputed from the seed first."""

from typing import Any

from .encoding import amount_of, count_of, from_base58, from_hex, member
from .errors import WalletMismatch, WalletOfOtherVault, WalletOutdated
from .notes import ANCHORS_PER_COMMAND, commitment_of, derive_anchor, output_blinding
from .units import fee_up_to
from .wallet import Wallet

_FINAL = {"order.filled", "order.cancelled", "order.expired", "order.replaced"}
_NO_ORDER = "00" * 16
# The index role of a withdrawal's change, and of output 0 of a reshape; output j adds 2j.
_PAYMENT_ROLE = 1


def join_venue(wallet: Wallet, info: dict[str, Any]) -> None:
    """A venue that was restored numbers events from 1 again and knows no order, payment or request of before. Raises
    WalletOutdated for a wallet with any of them; one without joins. Raises WalletOfOtherVault for a used wallet of another vault."""
    state, vault = wallet.state, {name: info[name] for name in ("genesis_hash", "program_id")}
    is_used = state["seq"] > 0 or any(state.get(name) for name in ("orders", "payments", "requests", "notes", "keys"))
    if is_used and state.get("vault", vault) != vault:
        raise WalletOfOtherVault("this wallet is of another vault: name the wallet of this venue")
    _judge_generation(state, info["generation"])
    state.update(vault=vault, generation=info["generation"])


def _judge_generation(state: dict[str, Any], generation: int) -> None:
    # One that names its generation was recovered or synced in it: a copy of the seed may have traded there.
    names = ("orders", "payments", "requests", *(("notes", "keys") if "generation" in state else ()))
    is_used = state["seq"] > 0 or any(state.get(name) for name in names)
    if is_used and state.get("generation", 0) != generation:
        raise WalletOutdated("the venue was restored from the chain after this wallet's last event: run `tacit wallet sync`")


def absorb_event(wallet: Wallet, generation: int, event: dict[str, Any]) -> None:
    """Applies an event in seq order. One already absorbed changes nothing; one that raises leaves the wallet at
    the event before it. Raises WalletOutdated; WalletMismatch when a note, amount or change contradicts the wallet's own
    derivation, or the event is malformed."""
    _judge_generation(wallet.state, generation)
    if event["seq"] <= wallet.state["seq"]:
        return
    kind, data = event["kind"], event["data"]
    try:
        if kind == "fill.matched":
            _absorb_fill(wallet, generation, data)
        elif kind == "fill.voided":
            _absorb_voided(wallet, generation, data)
        elif kind in _FINAL:
            _absorb_final(wallet, data)
        elif kind == "order.replace_refused":
            _absorb_refused(wallet, data)
        elif kind.startswith("withdrawal."):
            _absorb_withdrawal(wallet, generation, data)
        elif kind.startswith("reshape."):
            _absorb_reshape(wallet, generation, data)
        elif kind == "note.exited":
            note = wallet.note(member(data, "commitment", str))
            if note is not None and note["state"] == "free":
                note["state"] = "pending"
    except ValueError as error:
        raise WalletMismatch("an event has not the documented form") from error
    wallet.state.update(seq=event["seq"], generation=generation)


def _absorb_final(wallet: Wallet, data: dict[str, Any]) -> None:
    """Frees the collateral once every fill is absorbed: fill events may follow the closing one."""
    order, filled = wallet.order(member(data, "order_id", str)), str(amount_of(data, "filled_amount"))
    if order is None:
        return
    order["open"], order["filled_final"] = False, filled
    heir = wallet.order(data.get("replaced_by"))
    if order["filled"] == filled and (heir is None or heir["collateral"] != order["collateral"]):
        wallet.release(order["collateral"])


def _absorb_refused(wallet: Wallet, data: dict[str, Any]) -> None:
    """A replacement that waited was refused: its note is free unless another order keeps it."""
    refused = wallet.order(data.get("replacement"))
    if refused is not None:
        refused["open"], refused["filled_final"] = False, "0"
        if not wallet.is_backing(refused["collateral"]):
            wallet.release(refused["collateral"])


def _absorb_fill(wallet: Wallet, generation: int, fill: dict[str, Any]) -> None:
    order, j = wallet.order(member(fill, "order_id", str)), count_of(fill, "fill_index")
    if order is None or j < len(order["consumed"]):
        return
    collateral = wallet.note(order["collateral"])
    if collateral is None or j > len(order["consumed"]):
        raise WalletMismatch("the collateral of a fill differs from this wallet's")
    amount, quote, fee = (amount_of(fill, name) for name in ("amount", "quote_amount", "fee"))
    _check_price(order, amount_of(fill, "price"), amount, quote, fee)
    buys = order["side"] == "buy"
    change = int(collateral["amount"]) - (quote + fee if buys else amount)
    if change < 0 or (change > 0) != ("change_commitment" in fill):
        raise WalletMismatch("the change of a fill differs from this wallet's derivation")
    filled = str(int(order["filled"]) + amount)
    proceeds = (order["base_mint"], amount) if buys else (order["quote_mint"], quote - fee)
    key_index, made = order["key_index"], []
    if proceeds[1] > 0:
        blinding = _fill_blinding(wallet, generation, order, j, 0)
        made.append(_own_output(wallet, key_index, blinding, fill, "proceeds", *proceeds))
    if change > 0:
        blinding = _fill_blinding(wallet, generation, order, j, 1)
        made.append(_own_output(wallet, key_index, blinding, fill, "change", collateral["mint"], change))
        if order["open"] or filled != order.get("filled_final"):
            made[-1]["state"] = "pending"
    for note in made:
        wallet.add_note(note)
    collateral["state"] = "spent"
    wallet.pay_fee(order["quote_mint"], fee)
    order["filled"], order["quote"] = filled, str(int(order["quote"]) + quote)
    order["fee"] = str(int(order["fee"]) + fee)
    order["consumed"].append(order["collateral"])
    order["collateral"] = fill.get("change_commitment", order["collateral"])


def _check_price(order: dict[str, Any], price: int, amount: int, quote: int, fee: int) -> None:
    """The price is within the limit, the quote amount is exact, and the fees are within the signed terms."""
    limit = int(order["price_limit"])
    worse = price > limit if order["side"] == "buy" else price < limit
    if worse or amount * price != quote * 10 ** order["base_decimals"]:
        raise WalletMismatch("the price of a fill is outside the order's terms")
    if fee > fee_up_to(int(order["quote"]) + quote, order["fee_bps"]) - int(order["fee"]):
        raise WalletMismatch("the fee of a fill is outside the order's terms")


def _absorb_voided(wallet: Wallet, generation: int, fill: dict[str, Any]) -> None:
    """
    A fill that never reaches the chain: its notes do not exist, and the one it consumed is unspent. Which notes these are
    follows from the seed: an event cannot name another.
    """
    order, j = wallet.order(member(fill, "order_id", str)), count_of(fill, "fill_index")
    fee = amount_of(fill, "fee")
    if order is None or j >= len(order["consumed"]):
        return
    if fee > wallet.fees(order["quote_mint"]):
        raise WalletMismatch("the fee of a fill that is void was never paid")
    made = {_fill_blinding(wallet, generation, order, j, role).hex() for role in (0, 1)}
    wallet.state["notes"] = [note for note in wallet.state["notes"] if note["blinding"] not in made]
    note = wallet.note(order["consumed"][j])
    if note is not None and note["state"] == "spent":
        note["state"] = "free"
    wallet.pay_fee(order["quote_mint"], -fee)


def _absorb_withdrawal(wallet: Wallet, generation: int, data: dict[str, Any]) -> None:
    """A payout that cannot be made leaves a refund, which the `tacit` commands adopt from the chain."""
    payment = wallet.payment(member(data, "withdrawal_id", str))
    if payment is None:
        return
    note, status = wallet.note(payment["inputs"][0]), member(data, "status", str)
    if status == "voided" or note is None:
        wallet.release(payment["inputs"][0])
        return
    if data.get("commitment") != note["commitment"] or str(amount_of(data, "amount")) != payment["amounts"][0]:
        raise WalletMismatch("note or amount of a withdrawal differs from the signed one")
    fee = amount_of(data, "fee")
    rest, has_change = int(note["amount"]) - int(payment["amounts"][0]) - fee, "change_commitment" in data
    if status == "accepted" and not has_change:
        return
    if rest < 0 or (rest > 0) != has_change:
        raise WalletMismatch("the change of a withdrawal differs from this wallet's derivation")
    blinding = _payment_blinding(wallet, generation, payment, _PAYMENT_ROLE)
    change = _own_output(wallet, payment["key_index"], blinding, data, "change", note["mint"], rest) if has_change else None
    refund = from_hex(data.get("refund_commitment"), 32).hex() if status == "refunded" else None
    if change is not None:
        wallet.add_note(change)
    if note["state"] != "spent":
        note["state"] = "spent"
        wallet.pay_fee(note["mint"], fee)
    if refund is not None:
        payment["refund"] = {"commitment": refund, "mint": note["mint"], "generation": generation}


def _absorb_reshape(wallet: Wallet, generation: int, data: dict[str, Any]) -> None:
    """Outputs are compared from the start, and usable once their batch is on its way."""
    payment = wallet.payment(member(data, "reshape_id", str))
    first = wallet.note(payment["inputs"][0]) if payment is not None else None
    if payment is None or first is None:
        return
    status, outputs = member(data, "status", str), member(data, "outputs", list)
    if status == "voided":
        for commitment in payment["inputs"]:
            wallet.release(commitment)
        return
    if len(outputs) != len(payment["amounts"]):
        raise WalletMismatch("the outputs of a reshape differ from the signed ones")
    made = []
    for j, (output, amount) in enumerate(zip(outputs, payment["amounts"])):
        blinding = _payment_blinding(wallet, generation, payment, 2 * j + _PAYMENT_ROLE)
        named = {"reshape_commitment": member(output, "commitment", str)}
        made.append(_own_output(wallet, payment["key_index"], blinding, named, "reshape", first["mint"], int(amount)))
    if status == "accepted":
        return
    for note in made:
        wallet.add_note(note)
    for commitment in payment["inputs"]:
        spent = wallet.note(commitment)
        if spent is not None:
            spent["state"] = "spent"


def _fill_blinding(wallet: Wallet, generation: int, order: dict[str, Any], j: int, role: int) -> bytes:
    """The blinding of proceeds (role 0) or change (role 1) of fill j."""
    anchor = ANCHORS_PER_COMMAND * order["command"] + j % order["anchor_count"]
    derived = derive_anchor(wallet.seed, order["key_index"], anchor)
    return output_blinding(derived, from_hex(order["order_id"], 16), int(order["nonce"]), generation, 2 * j + role)


def _payment_blinding(wallet: Wallet, generation: int, payment: dict[str, Any], index_role: int) -> bytes:
    command = payment["command"]
    anchor = derive_anchor(wallet.seed, payment["key_index"], ANCHORS_PER_COMMAND * command)
    return output_blinding(anchor, from_hex(_NO_ORDER, 16), command + 1, generation, index_role)


def _own_output(
    wallet: Wallet, key_index: int, blinding: bytes, data: dict[str, Any], origin: str, mint: str, amount: int
) -> dict[str, Any]:
    """The free note of an event, if its commitment is the one that this wallet derives. Raises WalletMismatch."""
    commitment = commitment_of(wallet.trading_key(key_index), from_base58(mint), amount, blinding).hex()
    if commitment != data.get(f"{origin}_commitment"):
        raise WalletMismatch(f"a {origin} note differs from this wallet's derivation")
    return {
        **{"commitment": commitment, "key_index": key_index, "mint": mint, "amount": str(amount)},
        **{"blinding": blinding.hex(), "state": "free", "origin": origin},
    }
