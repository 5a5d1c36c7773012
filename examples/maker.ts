/** Quotes both sides of the market around a price, renews the quotes, and prints its books when the time is over or by Ctrl-C. */
import { close, end, explainErrors, openTrader, place, SYMBOL, trading } from './open_trader'

const MIDDLE = 150_000_000n // USDC units per SOL
const HALF_SPREAD = 500_000n
const AMOUNT = '0.2'
const RENEW_MS = 1_000

explainErrors()
const trader = await openTrader(process.argv.slice(2, 5))
const { session } = trader
const goesOn = trading(Number(process.argv[5] ?? 10))

while (goesOn()) {
  const quotes = [
    await place(session, { symbol: SYMBOL, side: 'buy', amount: AMOUNT, price: MIDDLE - HALF_SPREAD }),
    await place(session, { symbol: SYMBOL, side: 'sell', amount: AMOUNT, price: MIDDLE + HALF_SPREAD }),
  ]
  await Bun.sleep(RENEW_MS)
  for (const order_id of quotes) if (order_id !== undefined) await end(session, order_id)
}
close(trader)
