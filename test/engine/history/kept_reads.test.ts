/** What is kept for the next reader never differs from what a reader without memory would get. */

import { expect, test } from 'bun:test'
import fc from 'fast-check'
import type { EngineConfig } from '../../../engine/config'
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
