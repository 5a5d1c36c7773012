"""Quotes both sides of the market around a price, renews the quotes, and prints its books when the time is over or by Ctrl-C."""

import sys
import time

from open_trader import close, end, open_trader, place, trading

BUY_AT, SELL_AT = "149.5", "150.5"
AMOUNT = "0.2"
RENEW_S = 1

data, wallet, login, seconds = sys.argv[1:]
session, books = open_trader(data, wallet, login)
goes_on = trading(float(seconds))

while goes_on():
    quotes = [place(session, "buy", AMOUNT, BUY_AT), place(session, "sell", AMOUNT, SELL_AT)]
    time.sleep(RENEW_S)
    for order in quotes:
        if order is not None:
            end(session, order)
close(session, books)
