/** Effects of a newer slot: expiry, closes, skipped auctions, references, forgetting; changed terms and price levels. */

import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { LIMITS } from '../../../engine/limits'
import { decodeState, encodeState } from '../../../engine/machine/codec/state_codec'
import { PriceLevels } from '../../../engine/machine/state/account'
import { nextClose } from '../../../engine/machine/state/instrument'
import type { Fill } from '../../../protocol/wire/trading'
import {
  cancelling,
  FIXED_HASH_SEED,
  idOf,
  key,
  LOT,
  QUOTE,
  refused,
  SIGNATURE,
  SYMBOL,
  settings,
  TICK,
  World,
} from '../../kit/venue/machine_world'

function twoSides(change: ConstructorParameters<typeof World>[0] = {}): World {
  const world = new World(change)
  for (const name of ['alice', 'bob']) world.account(name)
  return world
}
const sell = { side: 'sell', price_limit: 99n * TICK } as const
const orderKinds = (world: World) =>
  world.events.filter((one) => one.event.kind.startsWith('order.')).map((one) => one.event.kind)

test('an order lives through its expiry slot and takes part in an auction there', () => {
  const world = twoSides()
  world.place('alice', key('a'), { expiry_slot: 1_005 })
  world.must({ kind: 'slot', reopens_slot: 0, slot: 1_004 })
  world.place('bob', key('b'), sell)
  expect(world.close(1_005).auctions).toMatchObject([{ price_ticks: 100 }])
})

test('when the chain jumps, expired orders go first and each due instrument holds one auction', () => {
  const world = twoSides()
  const gone = world.place('alice', key('a'), { expiry_slot: 1_029 })
  world.place('bob', key('b'), sell)
  const { auctions, events } = world.close(1_030)
  expect(events[0]!.event).toMatchObject({ kind: 'order.expired', data: { order_id: gone } })
  expect(auctions).toMatchObject([{ slot: 1_030, batch: 1, price_ticks: null }])
})

test('an instrument whose orders have all gone holds no auction', () => {
  const world = twoSides()
  world.place('alice', key('a'), { expiry_slot: 1_005 })
  expect(world.close(1_005).auctions).toMatchObject([{ price_ticks: null }])
  expect(world.close(1_010).auctions).toEqual([])
})

test('all instruments close at the same slots, with or without orders, and a slot that is not newer changes nothing', () => {
  const world = twoSides()
  const scheduled = [1_000, 1_004, 1_005].map((slot) => nextClose(world.state, slot))
  expect(scheduled).toEqual([1_005, 1_005, 1_010])
  world.place('alice', key('a'))
  world.close()
  const batches = () => [...world.state.instruments.values()].map(({ next_batch }) => next_batch)
  expect(batches()).toEqual([2, 2])
  world.close()
  expect(batches()).toEqual([3, 3])
  const { slot } = world.state
  world.must({ kind: 'slot', reopens_slot: 9_000, slot: slot - 1 })
  expect([world.state.slot, world.state.reopens_slot]).toEqual([slot, 0])
})

test('an order may not expire before the next close of its instrument', () => {
  const world = twoSides()
  const soon = world.placing('alice', key('a'), { expiry_slot: 1_004 })
  expect(refused(world, soon).code).toBe('expiry_too_soon')
  world.must({ ...soon, expiry_slot: 1_005 })
  const other = world.placing('bob', key('b'), { symbol: 'OTH-USDC', expiry_slot: 1_004 })
  expect(refused(world, other).code).toBe('expiry_too_soon')
})

test('ioc and fok remainders end with their one auction, and wait through a skipped one', () => {
  const world = twoSides()
  const ioc = world.place('alice', key('a'), { type: 'ioc', amount: 6n * LOT })
  const fok = world.place('alice', key('a'), { type: 'fok', amount: 60n * LOT, price_limit: 98n * TICK })
  world.place('bob', key('b'), { ...sell, amount: 2n * LOT })
  world.must({ kind: 'instrument_status', symbol: SYMBOL, status: 'paused' })
  expect(world.close().auctions).toEqual([])
  world.must({ kind: 'instrument_status', symbol: SYMBOL, status: 'active' })
  const { auctions, events } = world.close()
  expect(auctions).toMatchObject([{ batch: 1, volume_lots: 2, cancelled: [ioc, fok].sort() }])
  const reasons = events.flatMap(({ event }) => ('reason' in event.data ? [event.data.reason] : []))
  expect(reasons.sort()).toEqual(['fok_unfilled', 'ioc_remainder'])
  expect(world.state.orders.size).toBe(0)
})

test('expiry runs while matching is halted, and nothing else does', () => {
  const world = twoSides()
  world.place('alice', key('a'), { expiry_slot: 1_010 })
  world.place('bob', key('b'), sell)
  world.must({ kind: 'halted', reason: 'root_mismatch' })
  world.must({ kind: 'slot', reopens_slot: 0, slot: 1_011 })
  expect(orderKinds(world)).toEqual(['order.accepted', 'order.accepted', 'order.expired'])
  expect(world.auctions).toEqual([])
})

test('the clearing price is the next reference; orders that cross beyond the collar move it to the edge', () => {
  const world = twoSides()
  const reference = () => world.state.instruments.get(SYMBOL)!.reference_ticks
  expect(reference()).toBe(100)
  world.place('alice', key('a'), { price_limit: 151n * TICK })
  const ask = world.place('bob', key('b'), { ...sell, price_limit: 150n * TICK })
  expect(world.close().auctions).toMatchObject([{ price_ticks: null }])
  expect(reference()).toBe(120)
  world.close()
  expect(reference()).toBe(144)
  expect(world.close().auctions).toMatchObject([{ reference_ticks: 144, volume_lots: 10 }])
  expect(world.state.finals.find(Uint8Array.fromHex(ask))!.status).toBe('filled')
})

test('an oracle instrument waits for a fresh price, rounded to the nearest tick, half down', () => {
  const base = settings()
  const instruments = base.instruments.map((one) => ({ ...one, reference_policy: 'oracle' as const }))
  const max_age_ms = 7_000
  const sources = [{ source: 'feed', key: settings().fee_key }]
  const reference_sources = [{ symbol: SYMBOL, max_age_ms, sources }]
  const world = twoSides({ instruments, reference_sources })
  world.place('alice', key('a'))
  world.place('bob', key('b'), sell)
  const priced = (price: bigint) =>
    world.must({ kind: 'reference', symbol: SYMBOL, price, publish_unix_ms: world.unix_ms, source: 'feed' })
  expect(world.close().auctions).toEqual([])
  priced(100n * TICK + TICK / 2n)
  expect(world.state.instruments.get(SYMBOL)!.reference_ticks).toBe(100)
  priced(100n * TICK + TICK / 2n + 1n)
  expect(world.state.instruments.get(SYMBOL)!.reference_ticks).toBe(101)
  world.unix_ms += max_age_ms
  expect(world.close().auctions).toEqual([])
  priced(100n * TICK)
  expect(world.close().auctions).toMatchObject([{ reference_ticks: 100, volume_lots: 10 }])
})

test('a cancel that waits acts before the expiry of its order, which acts before a timer', () => {
  const world = twoSides()
  const far = { price_limit: 50n * TICK, expiry_slot: 1_006 }
  for (const name of ['cancelled', 'timed']) world.place('alice', key('a'), { ...far, order_id: idOf(name) })
  world.must({ kind: 'slot', reopens_slot: 0, slot: 1_005 })
  expect(world.closeOnly()).toBe(true)
  world.must(cancelling('alice', key('a'), 'cancelled', 1n))
  world.must({ kind: 'slot', reopens_slot: 0, slot: 1_011 })
  world.decide('committed')
  const statusOf = (name: string) => world.state.finals.find(idOf(name))!.status
  expect(['cancelled', 'timed'].map(statusOf)).toEqual(['cancelled', 'expired'])
  const timer = { account_id: 'alice', trading_key: key('a'), cancel_nonce: 2n, signature: SIGNATURE }
  world.place('alice', key('a'), { ...far, order_id: idOf('due'), expiry_slot: 1_016 })
  world.must({ kind: 'dead_man', ...timer, timeout_slots: 6 })
  world.must({ kind: 'slot', reopens_slot: 0, slot: 1_017 })
  expect(statusOf('due')).toBe('expired')
  // A timer that fired is armed no more.
  expect(world.state.key_list[0]!.dead_man_slot).toBe(0)
})

test('of each batch the first payout of a mint takes the place of its record', () => {
  const world = twoSides()
  for (let one = 1; one <= 5; one++) world.must(world.withdrawing(`${one}`, BigInt(one)))
  world.must({ kind: 'slot', reopens_slot: 0, slot: 1_001 })
  const batches = [...world.state.settlement.batches.values()]
  expect(batches.map(({ payouts, parts }) => [payouts.length, parts])).toEqual([
    [2, 5],
    [2, 5],
    [1, 3],
  ])
})

test('an auction is postponed while too much is unlanded', () => {
  const world = twoSides()
  world.place('alice', key('a'))
  world.place('bob', key('b'), sell)
  world.state.settlement.unlanded = LIMITS.unlanded_auction_max + 1
  expect(world.close().auctions).toEqual([])
  world.state.settlement.unlanded = LIMITS.unlanded_auction_max
  expect(world.close().auctions.length).toBe(1)
})

test('a final order is known for its retention and forgotten after it', () => {
  const world = twoSides()
  const command = world.placing('alice', key('a'), { order_id: idOf('old'), expiry_slot: 1_100 })
  world.must(command)
  world.must(cancelling('alice', key('a'), 'old', 1n))
  world.must({ kind: 'slot', reopens_slot: 0, slot: 1_101 })
  expect(refused(world, command).code).toBe('order_exists')
  expect(refused(world, cancelling('alice', key('a'), 'old', 2n)).code).toBe('order_final')
  world.unix_ms += 86_400_000
  world.must({ kind: 'slot', reopens_slot: 0, slot: 1_102 })
  expect(refused(world, cancelling('alice', key('a'), 'old', 2n)).code).toBe('order_unknown')
  expect(refused(world, { ...command, nonce: 99n }).code).toBe('expiry_too_soon')
})

test('closing an instrument cancels its resting orders, and it takes nothing more', () => {
  const world = twoSides()
  world.place('alice', key('a'))
  const other = world.place('bob', key('b'), { symbol: 'OTH-USDC', nonce: 1n })
  const closed = world.must({ kind: 'instrument_status', symbol: SYMBOL, status: 'closed' })
  expect(closed.events[0]!.event.data).toMatchObject({ reason: 'instrument_closed' })
  world.must({ kind: 'instrument_status', symbol: SYMBOL, status: 'active' })
  expect(refused(world, world.placing('alice', key('a'))).code).toBe('instrument_paused')
  expect([...world.state.orders.keys()]).toEqual([other])
})

/** The settings with another fee in every instrument. */
const feeOf = (fee_bps: number) => {
  const { instruments, ...rest } = settings()
  return { ...rest, instruments: instruments.map((one) => ({ ...one, fee_bps })) }
}
const fillsOf = (world: World, account: string) =>
  world.events
    .filter((one) => one.account_id === account && one.event.kind === 'fill.matched')
    .map((one) => one.event.data as Fill)

/** A buyer whose note pays the limit and the fee of 10 bps to the unit. */
function venue(): { world: World; order: string } {
  const world = new World()
  for (const name of ['alice', 'bob']) world.account(name)
  const opening = world.deposit(key('a'), QUOTE, 100_100n)
  const order = world.place('alice', key('a'), {
    side: 'buy',
    amount: 1_000n * LOT,
    price_limit: 100n * TICK,
    opening,
    collateral_commitment: opening.commitment,
  })
  return { world, order }
}
const offer = (world: World, lots: bigint) =>
  world.place('bob', key('b'), { side: 'sell', amount: lots * LOT, price_limit: 100n * TICK })

test.each([1_000, 11, 9, 0])('an order pays the fee in force when it was accepted, not %d bps', (fee_bps) => {
  const { world } = venue()
  offer(world, 400n)
  world.close()
  world.must({ kind: 'configure', settings: feeOf(fee_bps) })
  world.state = decodeState(encodeState(world.state), FIXED_HASH_SEED)
  offer(world, 600n)
  world.close()
  world.hashAll()
  expect(fillsOf(world, 'alice').map(({ fee }) => fee)).toEqual(['40', '60'])
  const late = (600n * 100n * BigInt(fee_bps) + 9_999n) / 10_000n
  expect(fillsOf(world, 'bob').map(({ fee }) => fee)).toEqual(['40', late.toString()])
})

const steps = fc.array(
  fc.record({ ticks: fc.integer({ min: 1, max: 60 }), grows: fc.integer({ min: 0, max: 9 }) }),
  {
    maxLength: 400,
  },
)

test('lowest and highest are those of the orders there are, one left out', () => {
  fc.assert(
    fc.property(steps, fc.integer({ min: 1, max: 2 ** 31 - 60 }), (drawn, base) => {
      const levels = new PriceLevels()
      const orders: number[] = []
      drawn.forEach(({ ticks, grows }, at) => {
        const gone = orders.length > 0 && grows < (at < drawn.length / 2 ? 3 : 7)
        if (gone) levels.remove(orders.splice((ticks * 7) % orders.length, 1)[0]!)
        else {
          orders.push(base + ticks)
          levels.add(base + ticks)
        }
        expect(levels.size).toBe(new Set(orders).size)
        for (const except of [undefined, base + ticks, Math.min(...orders), Math.max(...orders)]) {
          const others = [...orders]
          if (except !== undefined && others.includes(except)) others.splice(others.indexOf(except), 1)
          expect(levels.lowest(except)).toBe(others.length === 0 ? undefined : Math.min(...others))
          expect(levels.highest(except)).toBe(others.length === 0 ? undefined : Math.max(...others))
        }
      })
      for (const ticks of orders) levels.remove(ticks)
      expect(levels.size).toBe(0)
      expect(() => levels.remove(base)).toThrow('no order lies at this price')
    }),
    { numRuns: 100 },
  )
})
