/** Buys and sells in turns with immediate orders at the maker's prices, and prints its books when the time is over or by Ctrl-C. */
import type { SessionOrder } from '../client/index'
import { close, ended, explainErrors, openTrader, place, SYMBOL, trading } from './open_trader'

const BUY_AT = '151'
const SELL_AT = '149'
const AMOUNT = '0.05'
const PAUSE_MS = 200

explainErrors()
const trader = await openTrader(process.argv.slice(2, 5))
const { session } = trader
const goesOn = trading(Number(process.argv[5] ?? 10))

for (let buys = true; goesOn(); buys = !buys) {
  const side = buys ? 'buy' : 'sell'
  const order: SessionOrder = {
    symbol: SYMBOL,
    side,
    type: 'ioc',
    amount: AMOUNT,
    price: buys ? BUY_AT : SELL_AT,
  }
  const order_id = await place(session, order)
  if (order_id !== undefined) await ended(session, order_id)
  await Bun.sleep(PAUSE_MS)
}
close(trader)
