/** Holds the auction of an export again, by the code that the venue matches with (matching.md "Auditing"). */
import { Book } from '../../engine/machine/book/book'
import { cross } from '../../engine/machine/book/cross'
import { BUY, FOK, IOC, LIMIT, OrderPool, SELL } from '../../engine/machine/book/order_pool'
import type { AuctionExport } from '../../protocol/bodies/auction_export'
import type { AuctionResult } from '../../protocol/bodies/auction_result'
import { fromHex, toHex } from '../../protocol/bytes'

const KINDS = { limit: LIMIT, ioc: IOC, fok: FOK } as const

/** The result of the match of exactly these members. @throws RangeError for members that no book holds */
export function recomputeBatch(exported: AuctionExport): AuctionResult {
  const { orders, symbol, batch, slot, reference_ticks, seed } = exported
  const pool = new OrderPool(orders.length + 1)
  const book = new Book(pool, reference_ticks)
  for (const [at, order] of orders.entries()) {
    if (at > 0 && !(orders[at - 1]!.order_id < order.order_id))
      throw new RangeError('the orders are not in ascending order of their ids')
    if (order.arrival_batch > batch) throw new RangeError('an order arrived after the batch')
    book.add({
      side: order.side === 'buy' ? BUY : SELL,
      kind: KINDS[order.type],
      tick: order.ticks,
      lots: order.lots,
      min_fill: order.min_lots,
      arrival_batch: order.arrival_batch,
      order_id: fromHex(order.order_id, 16)!,
    })
  }
  const { collar_bps, price_rule, volume_tolerance_bps } = exported
  const terms = { reference: reference_ticks, collar_bps, price_rule, volume_tolerance_bps, seed }
  const { price, volume, buys, sells, remainders } = cross(book, terms)
  const idOf = (handle: number) => toHex(pool.orderId(handle))
  const fills = [buys, sells].flatMap(({ handles, lots }) =>
    Array.from(handles, (handle, at) => ({ order_id: idOf(handle), lots: lots[at]! })),
  )
  return {
    symbol,
    batch,
    slot,
    reference_ticks,
    seed,
    price_ticks: price,
    volume_lots: volume,
    fills: fills.sort((a, b) => (a.order_id < b.order_id ? -1 : 1)),
    cancelled: remainders.map(idOf).sort(),
  }
}
