/** Public facts on a full disk: they wait, each is stored once, and no published row lacks one. */
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { LIMITS } from '../../../engine/limits'
import { PublicFacts } from '../../../engine/reads/public_facts'
import { fillUp, isMountable, withSmallVolume } from '../../kit/small_volume'
import { pointAt } from '../history/account_events'

const KEY = new Uint8Array(32).fill(5)
const CLOSED = { kind: 'closed' as const, unix_ms: 0, seq: 1, capacity: 1, due: [] }

/** Facts on a volume that a test fills; `reopened`: position and closes as a later opening reads them. */
type FactsOnVolume = { facts: PublicFacts; fill: () => () => void; reopened: () => [number, number] }
const withFacts = (body: (on: FactsOnVolume) => void | Promise<void>) =>
  withSmallVolume('2m', async (volume) => {
    const dir = join(volume, 'facts')
    const facts = new PublicFacts(dir, KEY)
    const reopened = (): [number, number] => {
      facts.close()
      const again = new PublicFacts(dir, KEY)
      const read: [number, number] = [again.watermark(), again.batches().closed]
      again.close()
      return read
    }
    await body({ facts, fill: () => fillUp(volume), reopened })
  })

test.skipIf(!isMountable())(
  'a full disk keeps facts waiting up to their bound, beyond it the seal throws, and space stores them all once',
  () =>
    withFacts(({ facts, fill, reopened }) => {
      const bound = LIMITS.facts_waiting_max
      const free = fill()
      for (let seq = 1; seq <= bound; seq++) facts.record(seq, CLOSED, [], undefined)
      facts.seal(pointAt(bound))
      expect([facts.isStalled(), facts.watermark(), facts.batches().closed]).toEqual([true, 0, 0])
      facts.record(bound + 1, CLOSED, [], undefined)
      expect(() => facts.seal(pointAt(bound + 1))).toThrow(/disk|full|I\/O/)
      expect([facts.watermark(), facts.batches().closed]).toEqual([0, 0])
      free()
      facts.seal(pointAt(bound + 2))
      expect([facts.isStalled(), facts.watermark(), facts.batches().closed]).toEqual([true, bound, bound])
      // A group without facts stores the waiting ones.
      facts.seal(pointAt(bound + 3))
      expect([facts.isStalled(), facts.watermark()]).toEqual([false, bound + 1])
      const freeAgain = fill()
      for (let seq = bound + 4; seq < bound + 24; seq++) facts.record(seq, CLOSED, [], undefined)
      facts.seal(pointAt(bound + 24))
      expect(facts.isStalled()).toBe(true)
      freeAgain()
      facts.seal(pointAt(bound + 25))
      expect(reopened()).toEqual([bound + 24, bound + 21])
    }),
  120_000,
)

test.skipIf(!isMountable())(
  'on a full disk reads of statistics go on without their new rows, which lack no fact that waits',
  () =>
    withFacts(({ facts, fill }) => {
      const hour_ms = 3_600_000
      const start_ms = 480_000 * hour_ms
      const due = [{ symbol: 'SOL-USDC', batch: 1, reference_ticks: 100, seed: KEY }]
      facts.record(1, { ...CLOSED, unix_ms: start_ms, due } as never, [], undefined)
      facts.seal(pointAt(1))
      const shown = () => {
        const terms = { venue: KEY, symbol: 'SOL-USDC', period: 'hour' } as const
        const now_unix_ms = start_ms + 2 * hour_ms + 60_000
        return facts.statistics.page(terms, { after_unix_s: 0, limit: 9, now_unix_ms }).items.length
      }
      const free = fill()
      expect(shown()).toBe(0)
      facts.record(2, CLOSED, [], undefined)
      facts.seal(pointAt(2))
      expect(facts.isStalled()).toBe(true)
      free()
      expect(shown()).toBe(0)
      facts.seal(pointAt(3))
      expect(shown()).toBe(1)
    }),
  120_000,
)

test.skipIf(!isMountable())(
  'facts that waited for a full disk are stored a bounded number at a time, each once',
  () =>
    withFacts(async ({ facts, fill, reopened }) => {
      const free = fill()
      let seq = 0
      const group = () => {
        facts.record(++seq, CLOSED, [], undefined)
        facts.seal(pointAt(seq))
        return facts.watermark()
      }
      const step = LIMITS.facts_stored_max
      for (let count = 0; count < 3 * step; count++) expect(group()).toBe(0)
      free()
      const reached = [group(), group(), group()]
      expect(reached).toEqual([step, 2 * step, 3 * step])
      expect([facts.isStalled(), facts.batches().closed]).toEqual([true, 3 * step])
      expect([group(), facts.isStalled(), facts.batches().closed]).toEqual([seq, false, seq])
      // A snapshot and a clean stop store all that wait, a bounded number in each turn of the event loop, then up to their place.
      const freeAgain = fill()
      const stored = seq
      for (let count = 0; count < 3 * step; count++) expect(group()).toBe(stored)
      await expect(facts.mark(pointAt(seq))).rejects.toThrow()
      freeAgain()
      const marking = facts.mark(pointAt(seq + 5))
      expect([facts.watermark(), facts.isStalled()]).toEqual([stored + step, true])
      await marking
      expect([facts.watermark(), facts.isStalled(), facts.batches().closed]).toEqual([seq + 5, false, seq])
      expect(reopened()).toEqual([seq + 5, seq])
    }),
)
