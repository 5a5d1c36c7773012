/** A cached read never differs from that of a reader without a cache. */

import { expect, test } from 'bun:test'
import fc from 'fast-check'
import type { EngineConfig } from '../../../engine/config'
import { isOpen } from '../../../engine/history/seal'
import { Slices } from '../../../engine/history/slices'
import { createState } from '../../../engine/machine/state/state'
import { OwnReads } from '../../../engine/reads/own_reads'
import { InstrumentReads } from '../../../engine/reads/public_reads'
import { Refusal } from '../../../protocol/refusals'
import type * as wire from '../../../protocol/wire/trading'
import { FIXED_HASH_SEED } from '../../kit/venue/machine_world'
import {
  DAY_MS,
  fill,
  id,
  order,
  type ParsedHistory,
  Recorder,
  START_MS,
  withFolder,
  withHistory,
} from './account_events'

const instruments = new InstrumentReads(
  { instruments: [] } as unknown as EngineConfig,
  createState(FIXED_HASH_SEED),
)
const FULL = { capacity: 1, refill_per_s: 1, remaining: 1, retry_after_ms: 0 }
const readsOf = ({ history }: ParsedHistory) => {
  const pace = { nowMs: () => 0, sleep: async () => undefined }
  return new OwnReads(history, instruments, new Slices(history, () => FULL, pace))
}
const ACCOUNTS = ['alice', 'bob']

/** Everything two accounts can ask for, with the refusals they get. */
async function everything(own: OwnReads): Promise<unknown> {
  const answer = (read: () => string) => {
    try {
      return JSON.parse(read()) as unknown
    } catch (error) {
      if (error instanceof Refusal) return error.code
      throw error
    }
  }
  const all = ACCOUNTS.map(async (account) => [
    ...[0, 1, 3, 50].flatMap((after) => [
      answer(() => own.events(account, { after, limit: 4 })),
      answer(() => own.fills(account, { after, limit: 2 })),
      answer(() => own.orders(account, { after, limit: 3 })),
      answer(() => own.orders(account, { status: 'open', after, limit: 3 })),
    ]),
    ...[1, 2, 3].map((n) => answer(() => own.order(account, id(n)))),
    await own.snapshot({ account_id: account, access: 'trade' }),
  ])
  return Promise.all(all)
}

const steps = fc.array(
  fc.record({
    n: fc.integer({ min: 1, max: 4 }),
    action: fc.constantFrom('order', 'order', 'fill', 'flush', 'prune'),
    day: fc.nat(2),
  }),
  { minLength: 5, maxLength: 30 },
)

const step = (n: number, action: string, day = 0) => ({ n, action, day })
/** A fill whose order was pruned: the order's next event is on disk later than the fill. */
const fill_before_order = [
  ...[step(2, 'order'), step(2, 'order'), step(1, 'order', 1), step(1, 'prune', 1), step(2, 'fill')],
  ...[
    step(1, 'flush'),
    step(1, 'order'),
    step(1, 'order'),
    step(1, 'order'),
    step(2, 'order'),
    step(1, 'flush'),
  ],
]

test("a list equals the journal's after the cache is dropped, and before it is", async () => {
  await fc.assert(
    fc.asyncProperty(steps, async (script) => {
      await withFolder((dir) =>
        withHistory(dir, async (history) => {
          const recorder = new Recorder(history)
          const own = readsOf(history)
          const accepted = new Set<number>()
          const filled = new Set<number>()
          let now = START_MS
          for (const { n, action, day } of script) {
            now += day * 20 * DAY_MS
            const account = ACCOUNTS[n % 2] as string
            if (action === 'flush') await history.flush()
            else if (action === 'prune') {
              await history.flush()
              await history.prune(now)
            } else if (!accepted.has(n)) {
              accepted.add(n)
              recorder.record(account, 'order.accepted', order(n, 'accepted'), now)
            } else if (action === 'fill') {
              // A fill is matched once; later events of it are stages of its settlement.
              const stage = filled.has(n) ? 'submitted' : 'matched'
              filled.add(n)
              recorder.record(account, `fill.${stage}`, fill(n, 0, stage), now)
            } else {
              const data = order(n, 'filled', { filled_amount: '10' })
              recorder.record(account, 'order.filled', data, now)
            }
            const remembered = await everything(own)
            expect(remembered).toEqual(await everything(readsOf(history)))
            expect(await everything(own)).toEqual(remembered)
          }
        }),
      )
    }),
    { numRuns: 30, verbose: true, examples: [[fill_before_order]] },
  )
}, 120_000)

type Reuse = { account: string; n: number; action: string; pick: number }
type Known = { account: string; order: wire.Order; seq: number; fills: Matched[] }
/** A fill whose commitments are not known yet has no seq. */
type Matched = { account: string; fill: wire.Fill; seq: number | undefined }

/** A venue in which ids are used again after their orders are closed, and fills settle when they like. */
class Reusing {
  readonly orders: Known[] = []
  readonly fills: Matched[] = []
  constructor(private readonly recorder: Recorder) {}

  step({ account, n, action, pick }: Reuse): void {
    const slot = ++this.recorder.slot
    const open = this.orders.find(({ order: { order_id, status } }) => order_id === id(n) && isOpen(status))
    if (open === undefined) {
      if (action !== 'open') return
      const data = order(n, 'accepted', { arrival_slot: slot, price_limit: String(slot) })
      const event = this.recorder.record(account, 'order.accepted', data)
      this.orders.push({ account, order: event.data as wire.Order, seq: event.seq, fills: [] })
    } else if (action === 'close') this.change(open, 'cancelled', {})
    else if (action === 'fill') {
      const data = { ...fill(n, open.fills.length, 'matched'), slot, price: String(slot) }
      const one = { account: open.account, fill: data, seq: undefined }
      open.fills.push(one)
      this.fills.push(one)
      this.change(open, pick % 2 === 0 ? 'filled' : 'partially_filled', { filled_amount: String(slot) })
    }
  }

  private change(
    known: Known,
    status: 'cancelled' | 'filled' | 'partially_filled',
    more: Partial<wire.Order>,
  ) {
    const data = { ...known.order, status, ...more, fills: newest(known) }
    known.order = this.recorder.record(known.account, `order.${status}`, data).data as wire.Order
  }

  /** The commitments of the oldest unknown fills become known, or the stage of any known one changes. */
  settle(pick: number, stage: 'matched' | 'submitted' | 'finalized'): void {
    this.recorder.slot++
    const hashed = this.fills.filter(({ seq }) => seq !== undefined)
    const one = stage === 'matched' ? this.fills[hashed.length] : hashed[pick % Math.max(1, hashed.length)]
    if (one === undefined) return
    const event = this.recorder.record(one.account, `fill.${stage}`, { ...one.fill, stage })
    one.fill = event.data as wire.Fill
    one.seq ??= event.seq
  }
}

const newest = ({ fills }: Known) => fills.filter(({ seq }) => seq !== undefined).map(({ fill }) => fill)

const reuse = fc.array(
  fc.record({
    account: fc.constantFrom(...ACCOUNTS),
    n: fc.integer({ min: 1, max: 2 }),
    action: fc.constantFrom('open', 'open', 'fill', 'close', 'matched', 'submitted', 'finalized', 'flush'),
    pick: fc.nat(5),
  }),
  { minLength: 10, maxLength: 50 },
)

test('an id that is used again names each account its own orders, and each order its own fills', async () => {
  await fc.assert(
    fc.asyncProperty(reuse, async (script) => {
      await withFolder((dir) =>
        withHistory(dir, async (history) => {
          const venue = new Reusing(new Recorder(history))
          const own = readsOf(history)
          const check = async () => {
            for (const account of ACCOUNTS) {
              const all = venue.orders.filter((one) => one.account === account)
              const expected = all.map((one) => ({ ...one.order, fills: newest(one) }))
              const fills = venue.fills.filter((one) => one.account === account && one.seq !== undefined)
              const page = { after: 0, limit: 99 }
              expect(JSON.parse(own.orders(account, page)).items).toEqual(expected)
              expect(JSON.parse(own.fills(account, page)).items).toEqual(fills.map((one) => one.fill))
              for (const n of [1, 2]) {
                const one = expected.findLast(({ order_id }) => order_id === id(n))
                if (one !== undefined) expect(JSON.parse(own.order(account, id(n)))).toEqual(one)
                else {
                  const taken = venue.orders.some(({ order: { order_id } }) => order_id === id(n))
                  const refusal = new Refusal(taken ? 'not_owner' : 'order_unknown')
                  expect(() => own.order(account, id(n))).toThrow(refusal)
                }
              }
              const snapshot = await own.snapshot({ account_id: account, access: 'trade' })
              expect(JSON.parse(snapshot.orders)).toEqual(expected.filter(({ status }) => isOpen(status)))
            }
          }
          for (const { action, ...one } of script) {
            if (action === 'flush') await history.flush()
            else if (action === 'matched' || action === 'submitted' || action === 'finalized')
              venue.settle(one.pick, action)
            else venue.step({ action, ...one })
            await check()
          }
          await history.flush()
          await check()
        }),
      )
    }),
    { numRuns: 60, verbose: true },
  )
}, 120_000)

test("a snapshot of a socket never shows another account's order, whenever an older fill settles", async () => {
  await withFolder((dir) =>
    withHistory(dir, async (history) => {
      const venue = new Reusing(new Recorder(history))
      venue.step({ account: 'alice', n: 1, action: 'open', pick: 0 })
      venue.step({ account: 'alice', n: 1, action: 'fill', pick: 0 })
      venue.settle(0, 'matched')
      venue.step({ account: 'bob', n: 1, action: 'open', pick: 0 })
      const pace = {
        nowMs: () => 0,
        sleep: async () => venue.settle(0, 'submitted'),
      }
      const own = new OwnReads(history.history, instruments, new Slices(history.history, () => FULL, pace))
      for (const written of [false, true]) {
        if (written) await history.flush()
        const { orders, seq } = await own.snapshot({ account_id: 'alice', access: 'trade' })
        expect(JSON.parse(orders)).toEqual([])
        expect(seq).toBeGreaterThan(3)
      }
    }),
  )
})

test('a kept order is refused to another account as before it was kept', async () => {
  await withFolder((dir) =>
    withHistory(dir, async (history) => {
      new Recorder(history).record('alice', 'order.accepted', order(1, 'accepted'))
      const own = readsOf(history)
      for (let time = 0; time < 2; time++) {
        expect(JSON.parse(own.order('alice', id(1))).order_id).toBe(id(1))
        expect(() => own.order('bob', id(1))).toThrow(new Refusal('not_owner'))
      }
      expect(JSON.parse(own.orders('bob', { after: 0, limit: 9 }))).toEqual({ items: [], next_after: null })
    }),
  )
})

test('pages asked for a thousand times take one place each and the least asked for go first', async () => {
  await withFolder((dir) =>
    withHistory(dir, async (history) => {
      const recorder = new Recorder(history)
      for (let n = 1; n <= 40; n++) recorder.record('alice', 'order.accepted', order(n, 'accepted'))
      const own = readsOf(history)
      const first = own.orders('alice', { after: 0, limit: 40 })
      // More text than is kept: 40 orders make a page of about 14,000 characters.
      for (let limit = 41; limit < 1_400; limit++) own.orders('alice', { after: 0, limit })
      expect(own.orders('alice', { after: 0, limit: 40 })).toBe(first)
      const page = JSON.parse(first) as wire.Page<wire.Order>
      expect(page.items.map(({ order_id }) => order_id)).toEqual(
        Array.from({ length: 40 }, (_, at) => id(at + 1)),
      )
    }),
  )
})
