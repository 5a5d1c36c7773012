/** The history's thread yields to request threads; long reads run in slices, accounts in turn, each paid for. */

import { afterEach, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { Slices } from '../../../engine/history/slices'
import { writeGently } from '../../../engine/history/write_gently'
import { LIMITS } from '../../../engine/limits'
import type { Caller } from '../../../engine/venue'
import type { ChainPoint } from '../../../protocol/units'
import type * as wire from '../../../protocol/wire/trading'
import { TestSite } from '../../kit/venue/open_test_venue'
import { accountId } from '../../kit/venue/test_login'
import { Trader } from '../../kit/venue/trader'
import { logged, withFolder, withHistory } from './account_events'

/** Batches of `steps` steps of 0.6 ms each; the thread rests until `wake` is called. */
function thread(steps: number, fails_at = Number.POSITIVE_INFINITY) {
  const log: string[] = []
  let now_ms = 0
  let wake = () => {}
  const writer = {
    write(_: unknown, { seq }: ChainPoint) {
      let left = steps
      return () => {
        now_ms += 0.6
        if (steps - left === fails_at) throw new Error('full')
        log.push(`step ${seq}`)
        return --left > 0
      }
    },
    abandon: () => log.push('abandoned'),
  }
  const pace = {
    nowMs: () => now_ms,
    rest() {
      log.push('rest')
      return new Promise<void>((resolve) => {
        wake = resolve
      })
    },
  }
  const writes = writeGently(
    writer,
    (watermark) => log.push(`written ${watermark}`),
    () => log.push('stalled'),
    () => log.push('failed'),
    pace,
  )
  const push = (seq: number) => writes.push({ events: logged([]), point: { seq, head: new Uint8Array(32) } })
  return { log, writes, push, wake: () => wake() }
}

const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

test('a batch is written in pieces between which the thread rests', async () => {
  const { log, push, wake } = thread(5)
  push(1)
  expect(log).toEqual(['step 1', 'step 1', 'rest'])
  wake()
  await turn()
  expect(log.slice(3)).toEqual(['step 1', 'step 1', 'rest'])
  wake()
  await turn()
  expect(log.slice(6)).toEqual(['step 1', 'written 1'])
})

test('with another batch behind it, it is written without a rest, and then the other', async () => {
  const { log, push, wake } = thread(3)
  push(1)
  push(2)
  expect(log).toEqual(['step 1', 'step 1', 'rest'])
  wake()
  await turn()
  expect(log.slice(3)).toEqual(['step 1', 'written 1', 'step 2', 'step 2', 'rest'])
})

test('a wait for the database lasts until everything half written is done', async () => {
  const { log, push, wake, writes } = thread(3)
  push(1)
  const free = writes.idle().then(() => log.push('free'))
  push(2)
  wake()
  await turn()
  expect(log).not.toContain('free')
  wake()
  await free
  expect(log.slice(-2)).toEqual(['written 2', 'free'])
})

test('a batch that fails is reported once, and nothing is written after it', async () => {
  const { log, push, writes } = thread(3, 1)
  push(1)
  await turn()
  push(2)
  await turn()
  expect(log).toEqual(['step 1', 'abandoned', 'failed'])
  expect(await writes.idle().catch(() => 'refused')).toBe('refused')
})

/** proc(5): the nice value is the 17th field after the name. */
function niceOf(stat_path: string): number {
  const stat = readFileSync(stat_path, 'latin1')
  return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[16])
}

/** Threads that yield to the main one. */
function yielding(): string[] {
  const own = niceOf('/proc/self/stat')
  return readdirSync('/proc/self/task').filter((id) => niceOf(`/proc/self/task/${id}/stat`) > own)
}

/** At 19, the highest, no thread can yield to another one. */
const has_lower = process.platform === 'linux' && niceOf('/proc/self/stat') < 19

test.skipIf(!has_lower)('where cores are short, writing the history waits', async () => {
  await withFolder(async (dir) => {
    const before = yielding()
    await withHistory(dir, async () => {
      expect(yielding().filter((id) => !before.includes(id)).length).toBeGreaterThan(0)
    })
  })
})

const site = new TestSite()
afterEach(() => site.remove())

const caller = (account_id: string): Caller => ({ account_id, access: 'trade' })

/** Slices of a history whose every read costs ten units and five milliseconds. */
function machine(remaining = 100) {
  const [read, slept]: [string[], number[]] = [[], []]
  let units = 0
  let now_ms = 0
  const charged: [string, number][] = []
  const slices = new Slices(
    { units: () => units },
    ({ account_id }, cost) => {
      charged.push([account_id, cost])
      return { capacity: 100, refill_per_s: 50, remaining, retry_after_ms: 0 }
    },
    {
      nowMs: () => now_ms,
      sleep: async (ms) => void slept.push(ms),
    },
  )
  const run = (name: string) =>
    slices.run(caller(name), () => {
      units += 10
      now_ms += 5
      read.push(name)
      return read.length
    })
  return { slices, run, read, slept, charged }
}

test('an account with many reads waits for one read of each other account between two', async () => {
  const { run, read, slept, charged } = machine()
  const names = ['a', 'a', 'a', 'a', 'b', 'b', 'c']
  const values = await Promise.all(names.map(run))
  expect(read.join('')).toBe('abcabaa')
  expect(values).toEqual([1, 4, 6, 7, 2, 5, 3])
  // Twice the time of each.
  expect(slept).toEqual(names.map(() => 10))
  expect(charged.map(([name]) => name)).toEqual(read)
  expect(new Set(charged.map(([, cost]) => cost))).toEqual(new Set([10]))
})

test('a bucket that is less than half full is waited for, and a half full one is not', async () => {
  for (const [remaining, waits] of [
    [50, []],
    [40, [200]],
    [-25, [1_500]],
  ] as const) {
    const { run, slept } = machine(remaining)
    await run('a')
    expect(slept.filter((ms) => ms !== 10)).toEqual([...waits])
  }
})

test('a read that throws rejects its caller alone', async () => {
  const { slices, run } = machine()
  const failing = slices.run(caller('a'), () => {
    throw new Error('unreadable')
  })
  const told = failing.catch((error: Error) => error.message)
  expect(await Promise.all([told, run('a'), run('b')])).toEqual(['unreadable', 2, 1])
})

const FREE = { capacity: 1, refill_per_s: 1, remaining: 1, retry_after_ms: 0 }

/** A venue in which alice has so many open orders, each an event, that are all in the database. */
async function venueWith(orders: number) {
  const open = await site.open()
  const alice = await Trader.provisioned(open, 'alice')
  const requests = Array.from({ length: orders }, () => alice.place(alice.deposit('quote', 200_000_000n)))
  await open.chain.finalizeLeaves()
  await Promise.all(requests.map((request) => open.venue.place('alice', request)))
  const { history } = open.engine.loaded
  await history.flush()
  return { open, alice, requests, history }
}

test('streams of one account that all resume from the start read one slice a turn, and are charged for it', async () => {
  const { open, history } = await venueWith(2 * LIMITS.slice_rows + 50)
  const events = history.seqLast(accountId('alice'))
  const session = open.venue.authenticate('alice')
  const charged: number[] = []
  open.engine.accounts.chargeRead = (_, units) => {
    charged.push(units)
    return FREE
  }
  const seen = Array.from({ length: 8 }, () => 0)
  const sinks = seen.map((_, at) => ({
    events: (told: readonly unknown[]) => {
      seen[at] = seen[at]! + told.length
    },
    ended: () => undefined,
    bye: () => undefined,
  }))
  const gap = () => undefined
  for (const sink of sinks) await open.venue.subscribe(session, 0, sink, gap)
  let before = history.units()
  let most = 0
  while (seen.some((count) => count < events)) {
    await new Promise<void>((resolve) => setImmediate(resolve))
    most = Math.max(most, history.units() - before)
    before = history.units()
  }
  // A page reads one event more, which shows that there is a next one.
  expect(most).toBeLessThanOrEqual(LIMITS.slice_rows + 1)
  expect(seen).toEqual(seen.map(() => events))
  expect(charged.length).toBe(8 * 3)
  expect(charged.reduce((sum, one) => sum + one, 0)).toBeGreaterThanOrEqual(8 * events)
}, 120_000)

test('a snapshot that is read while orders come and go agrees with its seq', async () => {
  const { open, alice, requests, history } = await venueWith(LIMITS.slice_rows + 50)
  const { own } = open.engine
  const account_id = accountId('alice')
  open.engine.accounts.chargeRead = () => FREE
  const fresh = alice.place(alice.deposit('quote', 200_000_000n))
  await open.chain.finalizeLeaves()
  const reading = own.snapshot(caller(account_id))
  const gone = [requests[0]!, requests.at(-1)!]
  for (const { order_id } of gone) await open.venue.cancel('alice', order_id, alice.cancel(order_id))
  await open.venue.place('alice', fresh)
  const { seq, orders } = await reading
  const ids = (JSON.parse(orders) as wire.Order[]).map(({ order_id }) => order_id)
  // Orders that the events up to its seq leave open.
  const expected = new Set<string>()
  const all = history.events(account_id, 0, 10_000).items.map(({ text }) => JSON.parse(text))
  for (const { kind, data } of all.slice(0, seq)) {
    if (kind === 'order.accepted') expected.add(data.order_id)
    else expected.delete(data.order_id)
  }
  // At least the events before the read; on a busy machine it ends before later ones.
  expect(seq).toBeGreaterThanOrEqual(requests.length)
  expect(ids).toEqual([...expected])
}, 120_000)
