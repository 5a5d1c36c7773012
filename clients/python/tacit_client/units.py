"""Exact money: decimals as people write them, to and from base units and prices. Nothing is rounded, nothing is a float."""

import re
from decimal import Decimal
from typing import Any

from .encoding import U64_MAX, amount_of, count_of, from_base58, member
from .errors import InexactValue, MalformedAnswer

_DIGITS_MAX = 39
_DECIMALS_MAX = 18
_FEE_BPS_MAX = 10_000
_DECIMAL = re.compile(r"(0|[1-9][0-9]{0,38})(?:\.([0-9]{1,38}))?", re.ASCII)


def parse_amount(value: str | Decimal, decimals: int) -> int:
    """Base units of whole tokens, such as "1.5". Raises InexactValue; TypeError for a float."""
    if not isinstance(value, (str, Decimal)):
        raise TypeError("expected a decimal text or a Decimal")
    if isinstance(value, Decimal):
        # Written out, a Decimal of a few characters can be as long as memory.
        value = format(value, "f") if value.is_finite() and -_DIGITS_MAX < value.adjusted() < _DIGITS_MAX else ""
    matched = _DECIMAL.fullmatch(value)
    if matched is None:
        raise InexactValue("a decimal number as 12 or 0.5 is expected")
    fraction = (matched[2] or "").rstrip("0")
    if len(fraction) > decimals:
        raise InexactValue(f"there are at most {decimals} decimals")
    units = int(matched[1] + fraction.ljust(decimals, "0"))
    if units > U64_MAX:
        raise InexactValue("the value exceeds 64 bits")
    return units


def format_amount(units: int, decimals: int) -> str:
    """The shortest text that `parse_amount` reads as `units`."""
    digits = str(units).rjust(decimals + 1, "0")
    whole, fraction = digits[: len(digits) - decimals], digits[len(digits) - decimals :].rstrip("0")
    return f"{whole}.{fraction}" if fraction else whole


def instrument_of(answer: Any, symbol: str) -> dict[str, Any]:
    """The terms of an instrument, each in its range. Raises MalformedAnswer."""
    if member(answer, "symbol", str) != symbol:
        raise MalformedAnswer("the answer is of another instrument")
    for name in ("base_decimals", "quote_decimals"):
        count_of(answer, name, _DECIMALS_MAX)
    count_of(answer, "fee_bps", _FEE_BPS_MAX)
    for name in ("lot_size", "tick_size", "min_amount", "max_amount"):
        if amount_of(answer, name) == 0:
            raise MalformedAnswer(f"the {name} of the instrument is zero")
    try:
        mints = [from_base58(member(answer, name, str)) for name in ("base_mint", "quote_mint")]
    except ValueError as error:
        raise MalformedAnswer("a mint of the instrument is no address") from error
    if mints[0] == mints[1]:
        raise MalformedAnswer("the instrument trades a token for itself")
    return answer


def order_amount(instrument: dict[str, Any], value: str | Decimal | int) -> int:
    """Base units of an order; an int is base units already. Raises InexactValue off lot or outside the limits."""
    amount = value if type(value) is int else parse_amount(value, instrument["base_decimals"])
    if amount % int(instrument["lot_size"]):
        raise InexactValue("the amount is not a multiple of lot_size")
    if not int(instrument["min_amount"]) <= amount <= int(instrument["max_amount"]):
        raise InexactValue("the amount is not within min_amount and max_amount")
    return amount


def order_min_fill(instrument: dict[str, Any], value: str | Decimal | int, amount: int) -> int:
    """Base units of the least fill of an order of `amount`; zero for any. Raises InexactValue off lot or beyond the amount."""
    least = value if type(value) is int else parse_amount(value, instrument["base_decimals"])
    if not 0 <= least <= amount or least % int(instrument["lot_size"]):
        raise InexactValue("min_fill is not a multiple of lot_size up to the amount")
    return least


def order_price(instrument: dict[str, Any], value: str | Decimal | int) -> int:
    """Quote units per whole base token; an int is that already. Raises InexactValue off tick or zero."""
    price = value if type(value) is int else parse_amount(value, instrument["quote_decimals"])
    if price <= 0 or price % int(instrument["tick_size"]):
        raise InexactValue("the price is not a positive multiple of tick_size")
    return price


def quote_amount(amount: int, price: int, base_decimals: int) -> int:
    """Quote units: amount * price / 10^base_decimals, exact on lot and tick. Raises InexactValue on a remainder."""
    quote, remainder = divmod(amount * price, 10**base_decimals)
    if remainder:
        raise InexactValue("amount off lot or price off tick")
    return quote


def fee_up_to(cumulative_quote: int, fee_bps: int) -> int:
    """Quote units due on all trades of an order so far: rounded up. A fill is charged the part that the earlier
    fills did not pay."""
    return -(-cumulative_quote * fee_bps // 10_000)
