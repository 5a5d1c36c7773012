/** Live orders in memory equal plain objects through random additions and removals. Failures print their seed. */

import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { BUY, OrderPool, SELL } from '../../../engine/machine/book/order_pool'
import { BOOK_KIND } from '../../../engine/machine/rules/order_life'
import { newAccount, type TradingKey } from '../../../engine/machine/state/account'
import { FinalOrders, LiveOrders } from '../../../engine/machine/state/live_orders'
import { Notes } from '../../../engine/machine/state/note'
import type { Order, OrderFacts } from '../../../engine/machine/state/order'
import { RowQueue } from '../../../engine/memory/row_queue'
import { newList } from '../../../engine/memory/rows'
import { ByteReader, ByteWriter } from '../../../protocol/byte_stream'
import { concatBytes } from '../../../protocol/bytes'
import { FIXED_HASH_SEED, seeded, World } from '../../kit/venue/machine_world'

const instruments = new World().state.instrument_list

const newKeys = (): TradingKey[] =>
  ['a', 'b', 'c'].map((text, index) => ({
    index,
    bytes: seeded(text),
    text,
    account: newAccount(`account ${text}`, seeded(text)),
    place_nonce: 0n,
    cancel_nonce: 0n,
    dead_man_slot: 0,
    orders: newList(),
  }))

function venue() {
  const keys = newKeys()
  const key_index = new RowQueue(32, 32, FIXED_HASH_SEED)
  for (const key of keys) key_index.append(key.bytes)
  const notes = new Notes({ key_index, key_list: keys }, FIXED_HASH_SEED)
  const pool = new OrderPool(4)
  return { keys, notes, pool, orders: new LiveOrders({ keys, instruments, notes, pool }, FIXED_HASH_SEED) }
}

function factsOf({ keys, notes }: ReturnType<typeof venue>, serial: number, pick: number): OrderFacts {
  const collateral = notes.create({
    owner: keys[serial % 3]!.bytes,
    mint: 0,
    amount: BigInt(serial),
    status: 'in_use',
  })
  return {
    order_id: seeded(`id ${serial}`).slice(0, 16),
    key: keys[serial % 3]!,
    instrument: instruments[pick % instruments.length]!,
    side: pick % 2 === 0 ? 'buy' : 'sell',
    type: (['limit', 'ioc', 'fok'] as const)[pick % 3]!,
    lots: 2 ** 53 - 1 - serial,
    ticks: 2 ** 31 - serial,
    min_lots: pick % 3 === 2 ? [0, 2 ** 53 - 1 - serial][pick % 2]! : pick,
    fee_bps: serial % 1_001,
    expiry_slot: 2 ** 40 + (pick % 4),
    arrival_slot: 2 ** 40 - serial,
    arrival_batch: serial,
    nonce: 2n ** 64n - 1n - BigInt(serial),
    anchors: Array.from({ length: 1 + (pick % 16) }, (_, at) => seeded(`anchor ${serial} ${at}`)),
    digest: seeded(`digest ${serial}`),
    origin: pick % 3 === 0 ? undefined : `origin ${pick % 5}`,
    replaces: pick % 4 === 0 ? seeded(`replaced ${serial}`).slice(0, 16) : undefined,
    seq: serial + 1,
    remaining: 2 ** 53 - 1 - serial,
    status: 'accepted',
    collateral,
    traded: undefined,
  }
}

/** The book's part of it. */
function take({ pool }: ReturnType<typeof venue>, facts: OrderFacts): number {
  const { type, ticks: tick, remaining: lots, min_lots: min_fill, arrival_batch, order_id } = facts
  const side = facts.side === 'buy' ? BUY : SELL
  return pool.take({ side, kind: BOOK_KIND[type], tick, lots, min_fill, arrival_batch, order_id })
}

/** The readable fields of an order, in the form of its inputs. */
function read(order: Order): OrderFacts {
  const { key, instrument, side, type, lots, ticks, min_lots, expiry_slot, arrival_slot, arrival_batch } =
    order
  const { fee_bps, nonce, origin, replaces, seq, remaining, status, collateral } = order
  return {
    order_id: Uint8Array.fromHex(order.order_id),
    ...{
      key,
      instrument,
      side,
      type,
      lots,
      ticks,
      min_lots,
      fee_bps,
      expiry_slot,
      arrival_slot,
      arrival_batch,
      nonce,
    },
    anchors: Array.from({ length: order.anchor_count }, (_, at) => order.anchor(at)),
    digest: order.digest,
    origin,
    replaces: replaces === undefined ? undefined : Uint8Array.fromHex(replaces),
    seq,
    remaining,
    status,
    collateral,
    traded: undefined,
  }
}

const moves = fc.array(
  fc.record({ op: fc.constantFrom('add', 'add', 'end', 'fill'), pick: fc.nat(10_000) }),
  { minLength: 10, maxLength: 300 },
)
type Modelled = { handle: number; order: Order; facts: OrderFacts }

test('orders come and go, and live ones are found unchanged, in the order of arrival', () => {
  fc.assert(
    fc.property(moves, (stream) => {
      const all = venue()
      const { orders, notes, keys } = all
      const live: Modelled[] = []
      stream.forEach(({ op, pick }, serial) => {
        if (op === 'add') {
          const facts = factsOf(all, serial, pick)
          const handle = take(all, facts)
          live.push({ handle, order: orders.add(handle, facts), facts })
          return
        }
        const one = live[pick % Math.max(1, live.length)]
        if (one === undefined) return
        if (op === 'fill') {
          all.pool.remaining[one.handle] = one.facts.remaining = pick
          one.order.status = one.facts.status = 'partially_filled'
          return
        }
        orders.remove(one.order)
        live.splice(live.indexOf(one), 1)
        all.pool.give(one.handle)
        expect(() => one.order.remaining).toThrow('ended')
        expect(orders.find(one.facts.order_id)).toBeUndefined()
      })
      const handles = (of: Iterable<{ handle: number }>) => [...of].map(({ handle }) => handle)
      expect(orders.size).toBe(live.length)
      expect(notes.lives).toBe(live.length)
      expect(handles(orders.values())).toEqual(handles(live))
      for (const key of keys) {
        expect(handles(orders.of(key))).toEqual(handles(live.filter(({ facts }) => facts.key === key)))
      }
      for (const due of orders.dueUpTo(2 ** 40 + 2)) {
        const slot = due[0]!.expiry_slot
        expect(handles(due)).toEqual(handles(live.filter(({ facts }) => facts.expiry_slot === slot)))
      }
      for (const { handle, order, facts } of live) {
        expect(orders.find(facts.order_id)?.handle).toBe(handle)
        expect(read(order)).toEqual(facts)
      }
    }),
    { numRuns: 60 },
  )
})

test('two orders cannot lie at one handle', () => {
  const all = venue()
  take(all, factsOf(all, 1, 1))
  all.orders.add(1, factsOf(all, 1, 1))
  expect(() => all.orders.add(1, factsOf(all, 2, 2))).toThrow('already')
})

const keys = newKeys()
const idOf = (number: number) => seeded(`id ${number}`).slice(0, 16)
const REASONS = [undefined, 'by_owner', 'vault_frozen'] as const

function closedFacts(number: number) {
  return {
    order_id: idOf(number).toHex(),
    key: number % 3,
    digest: seeded(`digest ${number}`).toHex(),
    status: (['filled', 'cancelled', 'expired'] as const)[number % 3]!,
    reason: REASONS[number % 3],
    arrival_slot: number,
    expiry_slot: 2 ** 40 + number,
    replaces: number % 5 === 0 ? idOf(number + 1_000_000).toHex() : undefined,
    seq: number * 2,
    final_unix_ms: 1_700_000_000_000 + number,
  }
}
function add(finals: FinalOrders, number: number): void {
  const { order_id, digest, replaces, ...facts } = closedFacts(number)
  const ids = [order_id, digest, replaces ?? '00'.repeat(16)].map((hex) => Uint8Array.fromHex(hex))
  finals.add(concatBytes(...ids), { ...facts, replaces: replaces !== undefined })
}
function named({ key, ...facts }: ReturnType<typeof closedFacts>) {
  return {
    ...facts,
    digest: Uint8Array.fromHex(facts.digest),
    account_id: keys[key]!.account.account_id,
    trading_key: keys[key]!.text,
  }
}
function encoded(finals: FinalOrders): Uint8Array {
  const to = new ByteWriter()
  for (const _ of finals.rows.encode(to));
  return to.done()
}

test('after any adds and drops the rest is found unchanged and comes oldest first', () => {
  const run = fc.record({ added: fc.nat(1_500), dropped: fc.nat(1_500) })
  fc.assert(
    fc.property(fc.array(run, { minLength: 1, maxLength: 12 }), (runs) => {
      const finals = new FinalOrders(keys, FIXED_HASH_SEED)
      let [first, next] = [0, 0]
      for (const { added, dropped } of runs) {
        for (let at = 0; at < added; at++) add(finals, next++)
        first = Math.min(next, first + dropped)
        finals.rows.dropBefore(first)
        expect(finals.rows).toMatchObject({ first, size: next })
      }
      for (let number = Math.max(0, first - 50); number < next; number++) {
        const expected = number < first ? undefined : named(closedFacts(number))
        expect(finals.find(idOf(number))).toEqual(expected)
      }
      for (let number = first; number < next; number++)
        expect(finals.read(finals.rows.at(number))).toEqual(named(closedFacts(number)))
      // Bytes depend on the present content alone, not on its past.
      const restored = new FinalOrders(keys, FIXED_HASH_SEED)
      restored.rows.decode(new ByteReader(encoded(finals)))
      expect(encoded(restored)).toEqual(encoded(finals))
      if (first < next) expect(restored.find(idOf(next - 1))).toEqual(named(closedFacts(next - 1)))
    }),
    { numRuns: 8 },
  )
})
