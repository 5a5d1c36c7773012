"""Market statistics: rows that name each other by hash, the newest signed by the venue."""

from typing import Any

from .encoding import sha256, u64_le
from .errors import StatisticsRefused
from .receipts import VenueIdentity, is_signed

PERIOD_S = {"hour": 3_600, "day": 86_400}
_FIRST = "00" * 32
_FIGURES = ("open", "high", "low", "close", "volume", "auctions")


def row_body(venue: bytes, symbol: str, period: str, row: dict[str, Any]) -> bytes:
    """The bytes of a row, which are hashed and signed. A withheld row has null figures, which are zeros here."""
    name = symbol.encode()
    head = b"tacit/statrow/v1" + venue + u64_le(len(name)) + name
    times = u64_le(PERIOD_S[period]) + u64_le(row["start_unix_s"]) + bytes([row["auctions"] is not None])
    figures = b"".join(u64_le(int(row[figure] or 0)) for figure in _FIGURES)
    return head + times + figures + bytes.fromhex(row["previous"])


def verify_statistics(
    page: dict[str, Any], symbol: str, period: str, identity: VenueIdentity, before: dict[str, Any] | None = None
) -> list[dict[str, Any]]:
    """
    The rows of one page, unbroken from `before`, the last row verified so far. Who verifies page after page and keeps the
    last row knows that no earlier one has been rewritten since. Raises StatisticsRefused.
    """
    if page["symbol"] != symbol or page["period"] != period:
        raise StatisticsRefused("the page is of another instrument or period")
    last, body = before, b""
    for row in page["items"]:
        start = row["start_unix_s"]
        expected = start if last is None else last["start_unix_s"] + PERIOD_S[period]
        if start != expected or start % PERIOD_S[period] != 0:
            raise StatisticsRefused(f"a row is missing before {start}")
        if row["previous"] != (_FIRST if last is None else last["hash"]):
            raise StatisticsRefused(f"the row of {start} follows another history: an earlier row was rewritten")
        if (row["auctions"] is None) != all(row[figure] is None for figure in _FIGURES):
            raise StatisticsRefused(f"the row of {start} has another form")
        body = row_body(identity.venue, symbol, period, row)
        if row["hash"] != sha256(body).hex():
            raise StatisticsRefused(f"the row of {start} is not the one of its hash")
        last = row
    signature = bytes.fromhex((page["signed"] or {}).get("signature", ""))
    if page["items"] and not is_signed(signature, body, identity.statement_key):
        raise StatisticsRefused("the rows are not signed by the statement key of this venue")
    return page["items"]
