"""Buys and sells in turns with immediate orders at the maker's prices, and prints its books when the time is over or by Ctrl-C."""

import sys
import time

from open_trader import close, ended, open_trader, place, trading

AT = {"buy": "151", "sell": "149"}
AMOUNT = "0.05"
PAUSE_S = 0.2

data, wallet, login, seconds = sys.argv[1:]
session, books = open_trader(data, wallet, login)
goes_on = trading(float(seconds))

side = "buy"
while goes_on():
    order = place(session, side, AMOUNT, AT[side], type="ioc")
    if order is not None:
        ended(session, order)
    side = "sell" if side == "buy" else "buy"
    time.sleep(PAUSE_S)
close(session, books)
