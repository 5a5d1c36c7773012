"""Audits what a venue publishes: its key, its reserves, and hourly prices that name each other and are signed."""

import json
import sys
from pathlib import Path

from tacit_client import Venue, verify_statistics

data, login = sys.argv[1:]
venue = Venue.laptop(data, json.loads(Path(login).read_text()))
identity = venue.identify()


def audited_rows(symbol: str) -> int:
    """The number of published hours, each verified. Raises StatisticsRefused."""
    count, last, after = 0, None, 0
    while after is not None:
        page = venue.own("GET", f"/instruments/{symbol}/statistics", after=after)
        rows = verify_statistics(page, symbol, "hour", identity, last)
        count, last, after = count + len(rows), rows[-1] if rows else last, page["next_after"]
    return count


faults = [
    f"{mint['mint']}: the vault holds less than it owes"
    for mint in venue.get("/transparency")["mints"]
    if not mint["stale"] and int(mint["vault_balance"]) < int(mint["outstanding"])
]
rows = {one["symbol"]: audited_rows(one["symbol"]) for one in venue.get("/instruments")}
venue.close()
print(json.dumps({"faults": faults, "compose_hash": venue.info["compose_hash"], "rows": rows}))
sys.exit(1 if faults else 0)
