"""Buys and sells in turns with immediate orders at the maker's prices, and prints its books when the time is over."""

import sys
import time

from open_trader import close, ended, open_trader, place

AT = {"buy": "151", "sell": "149"}
AMOUNT = "0.05"
PAUSE_S = 0.2

data, wallet, login, seconds = sys.argv[1:]
session, books = open_trader(data, wallet, login)
over = time.monotonic() + float(seconds)

side = "buy"
while time.monotonic() < over:
    order = place(session, side, AMOUNT, AT[side], type="ioc")
    if order is not None:
        ended(session, order)
    side = "sell" if side == "buy" else "buy"
    time.sleep(PAUSE_S)
close(session, books)
