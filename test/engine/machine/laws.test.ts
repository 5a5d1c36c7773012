/** The laws over random command streams (matching.md "Laws"), and the state from commands alone. Failures print their seed. */

import { expect, test } from 'bun:test'
import { gunzipSync, gzipSync } from 'node:zlib'
import fc from 'fast-check'
import type { CommandBody } from '../../../engine/commands'
import { decodeCommand, decodeReplayed } from '../../../engine/machine/codec/command_codec'
import { decodeState, encodeBlocks, encodeState, stateHash } from '../../../engine/machine/codec/state_codec'
import { execute } from '../../../engine/machine/rules/execute'
import type { SettlementBatch } from '../../../engine/machine/state/batch'
import { baseOf, quoteOf } from '../../../engine/machine/state/instrument'
import { createState } from '../../../engine/machine/state/state'
import { concatBytes, utf8 } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import { feeUpTo } from '../../../protocol/units'
import type * as wire from '../../../protocol/wire/trading'
import { expectGolden } from '../../kit/golden'
import { FEE_BPS, FIXED_HASH_SEED, seeded, World } from '../../kit/venue/machine_world'
import { PARTS_MAX, played, steps } from './random_commands'

/** The laws of matching and settlement over random command streams (matching.md "Laws"). Failures print their seed. */

const RUNS = { numRuns: 40 }
/** By mint index: inputs less outputs, payouts and fees taken. */
function imbalance(batch: SettlementBatch): bigint[] {
  return batch.fees.map((fee, mint) => {
    const sum = (notes: { mint: number; amount: bigint }[]) =>
      notes.filter((note) => note.mint === mint).reduce((total, note) => total + note.amount, 0n)
    const paid = batch.payouts.flatMap((payout) => (payout.kind === 'withdrawal' ? [payout] : []))
    const payouts = sum(paid.map((payout) => ({ mint: payout.note.mint, amount: payout.amount })))
    return sum(batch.inputs) - sum(batch.outputs.map((output) => output.note)) - payouts - fee
  })
}

test('every settlement batch conserves each mint by itself, within its capacity, one part per order', () => {
  fc.assert(
    fc.property(steps, (stream) => {
      const seen = new Set<number>()
      played(stream, (world) => {
        for (const batch of world.state.settlement.batches.values()) {
          if (seen.has(batch.batch_id)) continue
          seen.add(batch.batch_id)
          expect(imbalance(batch)).toEqual([0n, 0n, 0n])
          expect(batch.parts).toBeLessThanOrEqual(PARTS_MAX)
          expect(batch.fills.length + 2 * batch.payouts.length).toBeLessThanOrEqual(batch.parts)
          expect(new Set(batch.fills.map((fill) => fill.order_id)).size).toBe(batch.fills.length)
        }
      })
    }),
    RUNS,
  )
})

test('the venue as a whole neither makes nor loses money', () => {
  fc.assert(
    fc.property(steps, (stream) => {
      const paid = [0n, 0n, 0n]
      const packed = new Set<number>()
      const mints = new Map<string, number>()
      const world = played(stream, ({ state }) => {
        for (const batch of state.settlement.batches.values()) {
          if (packed.has(batch.batch_id)) continue
          packed.add(batch.batch_id)
          for (const payout of batch.payouts) {
            if (payout.kind !== 'withdrawal') continue
            paid[payout.note.mint]! += payout.amount
            mints.set(payout.withdrawal_id, payout.note.mint)
          }
        }
      })
      for (const { event } of world.events) {
        if (event.kind !== 'withdrawal.refunded') continue
        const { withdrawal_id, amount } = event.data as wire.Withdrawal
        paid[mints.get(withdrawal_id)!]! -= BigInt(amount)
      }
      const held = new Map([...world.state.notes.values()].map((note) => [note.handle, note]))
      for (const batch of world.state.settlement.batches.values()) {
        for (const { note } of batch.outputs) held.set(note.handle, note)
      }
      const opened = [0n, 0n, 0n]
      for (const bytes of world.journal) {
        const command = decodeCommand(bytes)
        const body = command.kind === 'modify' ? command.replacement : command
        if (!('opening' in body) || body.opening === undefined) continue
        const mint = world.state.mints.findIndex((one) => one.bytes.toHex() === body.opening!.mint.toHex())
        opened[mint]! += body.opening.amount
      }
      const now = [0, 1, 2].map((mint) => {
        let total = paid[mint]! + world.state.settlement.fees[mint]!
        for (const note of held.values())
          if (note.mint === mint && note.status !== 'spent') total += note.amount
        return total
      })
      expect(now).toEqual(opened)
    }),
    RUNS,
  )
})

test('payouts are numbered without a gap, and no more are open than the queue has places', () => {
  fc.assert(
    fc.property(steps, fc.integer({ min: 1, max: 4 }), (stream, capacity) => {
      const numbers = new Set<number>()
      played(stream, (world) => {
        const { settlement } = world.state
        if (settlement.queue_capacity !== capacity) world.must({ kind: 'queue_capacity', capacity })
        const on_their_way = new Set(settlement.queued.keys())
        for (const { payouts } of settlement.batches.values()) {
          for (const { payout_number, payout_stage } of payouts) {
            if (payout_stage !== 'finalized') on_their_way.add(payout_number)
            numbers.add(payout_number)
          }
        }
        expect(settlement.payouts_open).toBe(on_their_way.size)
        expect(settlement.payouts_open).toBeLessThanOrEqual(capacity)
        expect([...numbers]).toEqual(Array.from({ length: settlement.next_payout - 1 }, (_, at) => at + 1))
      })
    }),
    RUNS,
  )
})

test('filled, live, cancelled and expired parts of every order sum to the original', () => {
  fc.assert(
    fc.property(steps, (stream) => {
      const world = played(stream)
      world.hashAll()
      const newest = new Map<string, wire.Order>()
      const filled = new Map<string, bigint>()
      const charged = new Map<string, { quote: bigint; fee: bigint }>()
      for (const { event } of world.events) {
        if (event.kind.startsWith('order.') && 'status' in event.data)
          newest.set((event.data as wire.Order).order_id, event.data as wire.Order)
        if (event.kind !== 'fill.matched') continue
        const fill = event.data as wire.Fill
        filled.set(fill.order_id, (filled.get(fill.order_id) ?? 0n) + BigInt(fill.amount))
        const { quote, fee } = charged.get(fill.order_id) ?? { quote: 0n, fee: 0n }
        charged.set(fill.order_id, { quote: quote + BigInt(fill.quote_amount), fee: fee + BigInt(fill.fee) })
      }
      // An order pays the fee of its total trades, rounded up once, in however many parts it was filled.
      for (const { quote, fee } of charged.values()) expect(fee).toBe(feeUpTo(quote, FEE_BPS))
      for (const order of newest.values()) {
        expect(BigInt(order.filled_amount) + BigInt(order.remaining_amount)).toBe(BigInt(order.amount))
        expect(filled.get(order.order_id) ?? 0n).toBe(BigInt(order.filled_amount))
        const live = world.state.orders.find(Uint8Array.fromHex(order.order_id)) !== undefined
        expect(live).toBe(order.status === 'accepted' || order.status === 'partially_filled')
        if (order.status === 'filled') expect(order.remaining_amount).toBe('0')
      }
    }),
    RUNS,
  )
})

test('a live order is always covered by its own note, and no other note is locked', () => {
  fc.assert(
    fc.property(steps, (stream) => {
      played(stream, (world) => {
        const notes = new Set<number>()
        for (const order of world.state.orders.values()) {
          const { terms } = order.instrument
          const rest = quoteOf(terms, order.remaining, order.ticks)
          const fee = feeUpTo(order.cumulative_quote + rest, terms.fee_bps) - order.cumulative_fee
          const needed = order.side === 'buy' ? rest + fee : baseOf(terms, order.remaining)
          expect(order.collateral.status).toBe('in_use')
          expect(order.collateral.amount >= needed).toBe(true)
          notes.add(order.collateral.handle)
        }
        expect(notes.size).toBe(world.state.orders.size)
        for (const payment of world.state.settlement.waiting) {
          if (payment.kind === 'withdrawal') notes.add(payment.note.handle)
          if (payment.kind === 'reshape') for (const note of payment.inputs) notes.add(note.handle)
        }
        for (const one of world.state.closed?.waiting ?? [])
          if (one.kind === 'modify' && one.note !== undefined) notes.add(one.note.handle)
        for (const note of world.state.notes.values())
          if (note.status === 'in_use') expect(notes.has(note.handle)).toBe(true)
      })
    }),
    RUNS,
  )
})

test('no account is on both sides of an auction, buys equal sells, and no final order trades', () => {
  fc.assert(
    fc.property(steps, (stream) => {
      const world = played(stream)
      const sides = new Map<string, { account_id: string; side: string }>()
      const ended = new Set<string>()
      let auction = 0
      for (const { account_id, event } of world.events) {
        // A change that waited for a decision may be rejected after the order has ended.
        if (!event.kind.startsWith('order.') || !('status' in event.data)) continue
        const order = event.data as wire.Order
        sides.set(order.order_id, { account_id, side: order.side })
        if (ended.has(order.order_id)) throw new Error('a final order has a later event')
        if (!['accepted', 'partially_filled'].includes(order.status)) ended.add(order.order_id)
      }
      for (const record of world.auctions) {
        const total = { buy: 0, sell: 0 }
        const by_account = new Map<string, string>()
        for (const { order_id, lots } of record.fills) {
          const { account_id, side } = sides.get(order_id)!
          expect(by_account.get(account_id) ?? side).toBe(side)
          by_account.set(account_id, side)
          total[side as 'buy' | 'sell'] += lots
        }
        expect(total).toEqual({ buy: record.volume_lots, sell: record.volume_lots })
        auction++
      }
      expect(auction).toBe(world.auctions.length)
    }),
    RUNS,
  )
})

test('events of an account are gapless and every event carries its own number', () => {
  fc.assert(
    fc.property(steps, (stream) => {
      const world = played(stream)
      const last = new Map<string, number>()
      for (const { account_id, event } of world.events) {
        expect(event.seq).toBe((last.get(account_id) ?? 0) + 1)
        last.set(account_id, event.seq)
        if ('seq' in event.data) expect(event.data.seq).toBe(event.seq)
      }
    }),
    RUNS,
  )
})

test('a replay that skips events and signatures gives the same state and auctions', () => {
  fc.assert(
    fc.property(steps, (stream) => {
      const world = played(stream)
      const state = createState(FIXED_HASH_SEED)
      const auctions = world.journal.flatMap((bytes) => {
        const outcome = execute(state, decodeReplayed(bytes), {}, 'skipped')
        if (!outcome.ok) throw new Error(outcome.code)
        expect(outcome.events).toEqual([])
        return outcome.auctions
      })
      expect(stateHash(state)).toEqual(stateHash(world.state))
      expect(auctions).toEqual(world.auctions)
    }),
    RUNS,
  )
})

test('replaying the encoded commands gives the same state hash, from the start and from any snapshot', () => {
  fc.assert(
    fc.property(steps, fc.nat(1_000), (stream, cut) => {
      const world = played(stream)
      const split = cut % world.journal.length
      const from_start = createState(FIXED_HASH_SEED)
      let restored = createState(FIXED_HASH_SEED)
      world.journal.forEach((bytes, at) => {
        if (at === split) restored = decodeState(encodeBlocks(from_start, 1 + (cut % 700)), FIXED_HASH_SEED)
        const command = decodeCommand(bytes)
        const outcome = execute(from_start, command, {})
        expect(outcome.ok).toBe(true)
        if (at >= split) expect(execute(restored, command, {})).toEqual(outcome)
      })
      expect(stateHash(from_start)).toEqual(stateHash(world.state))
      expect(stateHash(restored)).toEqual(stateHash(world.state))
      const blocks: Uint8Array[] = []
      for (const block of encodeBlocks(restored, 1 + cut)) blocks.push(block.slice())
      expect(concatBytes(...blocks)).toEqual(encodeState(restored))
    }),
    RUNS,
  )
})

const orders = fc.array(
  fc.record({
    buys: fc.boolean(),
    lots: fc.integer({ min: 1, max: 30 }),
    ticks: fc.integer({ min: 95, max: 105 }),
    min: fc.nat(2),
    type: fc.constantFrom('limit' as const, 'ioc' as const, 'fok' as const),
  }),
  { minLength: 2, maxLength: 24 },
)

test('reordering new orders inside one batch changes nothing', () => {
  fc.assert(
    fc.property(orders, fc.infiniteStream(fc.nat(1_000)), (book, shuffle) => {
      const inOrder = auctionOf(
        book,
        book.map((_, at) => at),
      )
      const ranks = book.map(() => shuffle.next().value as number)
      const shuffled = book.map((_, at) => at).sort((a, b) => ranks[a]! - ranks[b]! || b - a)
      expect(auctionOf(book, shuffled)).toEqual(inOrder)
    }),
    RUNS,
  )
})

/** Every order by a separate account, so that its acceptance does not depend on other orders. */
function auctionOf(
  book: { buys: boolean; lots: number; ticks: number; min: number; type: 'limit' | 'ioc' | 'fok' }[],
  sequence: number[],
) {
  const world = new World()
  const commands = book.map((one, at) => {
    world.account(`account ${at}`)
    const min_lots = one.type === 'limit' && one.min > 0 ? Math.floor(one.lots / one.min) : 0
    return world.placing(`account ${at}`, seeded(`key ${at}`), {
      side: one.buys ? 'buy' : 'sell',
      type: one.type,
      amount: BigInt(one.lots) * 1_000_000n,
      price_limit: BigInt(one.ticks) * 1_000n,
      min_fill: BigInt(min_lots) * 1_000_000n,
      nonce: 1n,
    })
  })
  for (const at of sequence) world.must(commands[at]!)
  const { auctions } = world.close()
  world.hashAll()
  const fills = world.events
    .filter((one) => one.event.kind === 'fill.matched')
    .map((one) => one.event.data as wire.Fill)
    .sort((a, b) => (a.order_id + a.fill_index < b.order_id + b.fill_index ? -1 : 1))
  return { auctions, fills }
}

/** Commands of every kind of trade, payment, exit and halt, each behind its length in 4 bytes, compressed. */
const file = new URL('../../golden/recorded_journal.gz', import.meta.url)

/** `UPDATE_GOLDEN=1` records another journal: only for a build whose records have another layout. */
async function record(): Promise<void> {
  const streams = fc.sample(steps, { seed: 16, numRuns: 24 })
  const { journal } = played(streams.flat(), (world, at) => {
    if (at % 400 === 399)
      for (const kind of ['halted', 'resumed'] as const)
        world.must({ kind, reason: 'vault_paused' } as CommandBody)
  })
  const framed = journal.flatMap((bytes) => {
    const length = new Uint8Array(4)
    new DataView(length.buffer).setUint32(0, bytes.length, true)
    return [length, bytes]
  })
  await Bun.write(file, gzipSync(concatBytes(...framed)))
}

async function recorded(): Promise<Uint8Array[]> {
  const all = new Uint8Array(gunzipSync(await Bun.file(file).bytes()))
  const view = new DataView(all.buffer)
  const commands: Uint8Array[] = []
  for (let at = 0; at < all.length; at += 4 + view.getUint32(at, true)) {
    commands.push(all.slice(at + 4, at + 4 + view.getUint32(at, true)))
  }
  return commands
}

function plain(_: string, value: unknown): unknown {
  if (value instanceof Map) return [...value]
  if (typeof value === 'bigint') return value.toString()
  return value instanceof Uint8Array ? value.toHex() : value
}

const CHECK_EVERY = 500

test('a recorded journal gives the outcomes and states it gave when it was recorded', async () => {
  if (process.env['UPDATE_GOLDEN'] === '1') await record()
  const commands = await recorded()
  let state = createState(FIXED_HASH_SEED)
  let outcomes = utf8('outcomes')
  const checkpoints: { commands: number; state: string; outcomes: string }[] = []
  commands.forEach((bytes, at) => {
    const outcome = execute(state, decodeCommand(bytes), {})
    outcomes = sha256(outcomes, utf8(JSON.stringify(outcome, plain)))
    if ((at + 1) % CHECK_EVERY > 0 && at + 1 < commands.length) return
    const snapshot = encodeState(state)
    checkpoints.push({ commands: at + 1, state: sha256(snapshot).toHex(), outcomes: outcomes.toHex() })
    // From here on by a state that went through a snapshot, as after a boot.
    state = decodeState(snapshot, FIXED_HASH_SEED)
    expect(encodeState(state)).toEqual(snapshot)
  })
  expectGolden('recorded_journal.json', { checkpoints })
})
