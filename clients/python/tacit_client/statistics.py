"""Market statistics: rows that name each other by hash, the newest signed by the venue."""

from typing import Any

from .encoding import amount_of, count_of, from_hex, member, sha256, u64_le
from .errors import StatisticsRefused
from .receipts import VenueIdentity, is_signed

PERIOD_S = {"hour": 3_600, "day": 86_400}
_FIRST = "00" * 32
_FIGURES = ("open", "high", "low", "close", "volume")


def row_body(venue: bytes, symbol: str, period: str, row: dict[str, Any]) -> bytes:
    """
    The bytes of a row, which are hashed and signed. A withheld row has null figures, which are zeros here. Raises ValueError
    for a value of another form: each number has one spelling, or two rows would have one hash.
    """
    name, is_shown = symbol.encode(), row.get("auctions") is not None
    figures = [amount_of(row, figure) for figure in _FIGURES] + [count_of(row, "auctions")] if is_shown else [0] * 6
    head = b"tacit/statrow/v1" + venue + u64_le(len(name)) + name
    times = u64_le(PERIOD_S[period]) + u64_le(count_of(row, "start_unix_s")) + bytes([is_shown])
    return head + times + b"".join(map(u64_le, figures)) + from_hex(row.get("previous"), 32)


def verify_statistics(
    page: dict[str, Any], symbol: str, period: str, identity: VenueIdentity, before: dict[str, Any] | None = None
) -> list[dict[str, Any]]:
    """
    The rows of one page, unbroken from `before`, the last row verified so far. Who verifies page after page and keeps the
    last row knows that no earlier one has been rewritten since. Raises StatisticsRefused.
    """
    try:
        return _verified(page, symbol, period, identity, before)
    except ValueError as error:
        raise StatisticsRefused("the page has not the documented form") from error


def _verified(
    page: Any, symbol: str, period: str, identity: VenueIdentity, before: dict[str, Any] | None
) -> list[dict[str, Any]]:
    if member(page, "symbol", str) != symbol or member(page, "period", str) != period:
        raise StatisticsRefused("the page is of another instrument or period")
    last, body, rows = before, b"", member(page, "items", list)
    for row in rows:
        start = count_of(row, "start_unix_s")
        expected = start if last is None else last["start_unix_s"] + PERIOD_S[period]
        if start != expected or start % PERIOD_S[period] != 0:
            raise StatisticsRefused(f"a row is missing before {start}")
        if row.get("previous") != (_FIRST if last is None else last["hash"]):
            raise StatisticsRefused(f"the row of {start} follows another history: an earlier row was rewritten")
        # A withheld row states every figure as null.
        if row.get("auctions") is None and any(row.get(figure, 0) is not None for figure in (*_FIGURES, "auctions")):
            raise StatisticsRefused(f"the row of {start} has another form")
        body = row_body(identity.venue, symbol, period, row)
        if row.get("hash") != sha256(body).hex():
            raise StatisticsRefused(f"the row of {start} is not the one of its hash")
        last = row
    if rows:
        signature = from_hex(member(member(page, "signed", dict), "signature", str), 64)
        if not is_signed(signature, body, identity.statement_key):
            raise StatisticsRefused("the rows are not signed by the statement key of this venue")
    return rows
