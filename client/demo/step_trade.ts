/** Orders of every kind, one of them filled in part over three batches. */
import type { Fill, Instrument } from '../../protocol/wire'
import { check, fact, tokens } from './report'
import type { Trader } from './trader'

const PRICE = 150_000_000n
const SOL = 1_000_000_000n

function tellFill(who: string, fill: Fill): void {
  const price = `${tokens(BigInt(fill.amount), 9)} SOL at ${tokens(BigInt(fill.price), 6)}`
  fact(`${who} ${fill.side}s`, `${price}, fee ${tokens(BigInt(fill.fee), 6)} USDC, batch ${fill.batch}`)
}

/** A resting buy of 9 SOL meets three sells of 2 SOL, one per batch: the change note carries it from batch to batch. */
export async function partialOverThreeBatches(
  buyer: Trader,
  seller: Trader,
  sol: Instrument,
): Promise<string> {
  const resting = await buyer.place(sol, { side: 'buy', amount: 9n * SOL, price: PRICE })
  fact(`${buyer.name} rests`, `buy 9 SOL at 150, order ${resting.slice(0, 8)}…`)
  for (let round = 1; round <= 3; round++) {
    const ioc = await seller.place(sol, { side: 'sell', type: 'ioc', amount: 2n * SOL, price: 149_000_000n })
    await seller.untilOrder(ioc, 'filled')
    const fills = await buyer.untilFills(resting, 'matched', round)
    tellFill(buyer.name, fills[round - 1]!)
  }
  const fills = buyer.fillsOf(resting, 'matched')
  check(new Set(fills.map((fill) => fill.batch)).size === 3, 'one order filled in part over three batches')
  check(
    buyer.order(resting)?.remaining_amount === String(3n * SOL),
    '3 SOL of it still rest, backed by its change note',
  )
  return resting
}

/** The other kinds: fok too big and fitting, min_fill, an ioc remainder, a cancel. */
export async function otherKinds(buyer: Trader, seller: Trader, sol: Instrument): Promise<void> {
  const fok_big = await seller.place(sol, { side: 'sell', type: 'fok', amount: 8n * SOL, price: PRICE })
  const unfilled = await seller.untilOrder(fok_big, 'cancelled')
  check(unfilled.reason === 'fok_unfilled', 'a fok of 8 SOL against 3 is cancelled whole')

  const min_fill = await seller.place(sol, {
    side: 'sell',
    amount: 5n * SOL,
    price: PRICE,
    min_fill: 4n * SOL,
  })
  const fok = await seller.place(sol, { side: 'sell', type: 'fok', amount: SOL, price: PRICE })
  await seller.untilOrder(fok, 'filled')
  tellFill(seller.name, (await seller.untilFills(fok, 'matched', 1))[0]!)
  check(
    seller.order(min_fill)?.status === 'accepted',
    'an order of at least 4 SOL waits while only less is there',
  )
  await seller.cancel(min_fill)
  check((await seller.untilOrder(min_fill, 'cancelled')).reason === 'by_owner', 'its owner cancels it')

  const ioc = await buyer.place(sol, { side: 'buy', type: 'ioc', amount: SOL, price: 145_000_000n })
  check(
    (await buyer.untilOrder(ioc, 'cancelled')).reason === 'ioc_remainder',
    'an ioc without a match ends after its batch',
  )
}

/** Every fill of an order is final on Solana, each with the signature of its settlement batch. */
export async function untilSettled(trader: Trader, order_id: string, count: number): Promise<Fill[]> {
  const fills = await trader.untilFills(order_id, 'finalized', count)
  for (const fill of fills)
    fact(`settlement batch ${fill.settlement_batch} finalized`, String(fill.signature))
  check(
    fills.every((fill) => (fill.signature ?? '').length > 80),
    'every fill names its transaction',
  )
  return fills
}
