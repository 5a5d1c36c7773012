/** When a snapshot is due, and the consequences of a failed one. */

import { afterEach, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { constants, getPriority } from 'node:os'
import type { History } from '../../../engine/history/contract'
import type { Journal } from '../../../engine/journal/contract'
import { DiskGauge, disk } from '../../../engine/journal/disk'
import { listSegments } from '../../../engine/journal/segment_files'
import { LIMITS } from '../../../engine/limits'
import type { PublicFacts } from '../../../engine/reads/public_facts'
import type { Sequencer } from '../../../engine/sequencer/sequencer'
import { retirableBefore } from '../../../engine/snapshots/make_snapshot'
import {
  type MadeSnapshot,
  type Request,
  SnapshotDisagrees,
  type SnapshotPoint,
  Snapshotting,
} from '../../../engine/snapshots/snapshotting'
import type { Stores } from '../../../engine/stores/stores'
import { KEY, open, withFolder } from '../journal/folder'

const MADE: MadeSnapshot = {
  state_hash: new Uint8Array(32),
  catalogue_hash: new Uint8Array(32),
  covered: { leaves: 0, nullifiers: 0, retired: 0, finals: 0 },
  made_of: undefined,
  retire_before: 0,
}

const beginning = () => ({
  seq: 0,
  ms: 0,
  took_ms: 0,
  covered: 1_000,
  rows: 0,
  submitting: Promise.resolve(),
  /** Old files cannot be deleted. */
  keeps: false,
  /** Of a snapshot. */
  own_records: 0,
})

/** A venue at `seq`, whose snapshots take `took_ms` and end as `outcome` says. */
function site(
  outcome: (point: SnapshotPoint) => Promise<MadeSnapshot> = async ({ newest }) => ({
    ...MADE,
    made_of: newest?.seq,
  }),
) {
  const made: SnapshotPoint[] = []
  const late: boolean[] = []
  const retired: number[] = []
  const pruned: (readonly number[])[] = []
  const fatal: Error[] = []
  const covered: number[] = []
  const steps: string[] = []
  const now = beginning()
  const head = new Uint8Array(32)
  const parts = {
    journal: {
      head: () => ({ seq: now.seq, head }),
      firstSeq: () => 1,
      retire: async (before: number) => void retired.push(before),
    } as unknown as Journal,
    history: { sync: async () => undefined, watermark: () => now.seq } as unknown as History,
    facts: { mark: async () => undefined } as unknown as PublicFacts,
    snapshots: {
      prune: async (seqs: readonly number[]) => {
        pruned.push(seqs)
        if (now.keeps) throw new Error('EPERM')
      },
    },
    stores: {
      follow: () => steps.push('lookups find the rows'),
      prune: () => undefined,
    } as unknown as Stores,
    clock: { unixMs: () => now.ms, monotonicMs: () => now.ms },
    maker: {
      make: (point: SnapshotPoint, is_late: boolean) => {
        made.push(point)
        late.push(is_late)
        now.ms += now.took_ms
        return outcome(point)
      },
      close: () => undefined,
    },
    sequencer: {
      get seq_durable() {
        return now.seq
      },
      submit: async () => {
        steps.push('the state drops them')
        await now.submitting
        now.seq += now.own_records
        return {} as Awaited<ReturnType<Sequencer['submit']>>
      },
    },
    anchoring: { coveredSeq: () => now.covered, dirty: (seq: number) => void covered.push(seq) },
    fatal: (error: Error) => void fatal.push(error),
    rowsToTake: () => now.rows,
  }
  const pace = { records: 100, every_ms: 1_000, look_ms: 3_600_000 }
  const snapshotting = new Snapshotting(parts, undefined, undefined, pace)
  /** One look at the clock, and everything that follows from it. */
  const look = async () => {
    snapshotting.begin()
    await new Promise((resolve) => setImmediate(resolve))
  }
  return { now, made, late, retired, pruned, covered, steps, fatal, snapshotting, look }
}

test('a snapshot is due after so many records, also after a long round, or after some time with fewer', async () => {
  const { now, made, look, snapshotting } = site()
  now.took_ms = 600
  now.seq = 99
  await look()
  expect(made).toHaveLength(0)
  now.seq = 100
  await look()
  expect(made.map(({ seq }) => seq)).toEqual([100])
  now.seq = 102
  await look()
  expect(made).toHaveLength(1)
  now.ms += 1_000
  await look()
  expect(made.map(({ seq }) => seq)).toEqual([100, 102])
  now.ms += 10_000
  await look()
  expect(made).toHaveLength(2)
  for (const seq of [202, 302]) {
    now.seq = seq
    await look()
  }
  expect(made.map(({ seq }) => seq)).toEqual([100, 102, 202, 302])
  await snapshotting.close()
})

test('a venue without other records makes no snapshot of the record of its snapshot', async () => {
  const { now, made, look, snapshotting } = site()
  now.own_records = 1
  now.seq = 100
  for (let at = 0; at < 100; at++) {
    await look()
    now.ms += 1_000
  }
  expect(made).toHaveLength(1)
  now.seq++
  await look()
  expect(made).toHaveLength(2)
  await snapshotting.close()
})

test('a snapshot whose predecessor cannot be deleted counts all the same', async () => {
  const { now, made, look, snapshotting } = site()
  now.keeps = true
  now.seq = 100
  await look()
  now.seq = 102
  now.ms += 999
  await look()
  expect(made).toHaveLength(1)
  expect(snapshotting).toMatchObject({ failures: 1, newest: { seq: 100 } })
  await snapshotting.close()
})

test('a snapshot is due while it would take a quarter of the rows that the memory may hold, also after a long round', async () => {
  const { now, made, look, snapshotting } = site()
  now.seq = 1
  now.rows = LIMITS.rows_waiting_max / 4
  await look()
  expect(made).toHaveLength(0)
  now.rows++
  now.took_ms = 600_000
  await look()
  expect(made).toHaveLength(1)
  now.seq = 2
  await look()
  expect(made).toHaveLength(2)
  now.seq = 3
  now.rows--
  await look()
  expect(made).toHaveLength(2)
  await snapshotting.close()
})

test.each([
  ['late', 1_000, 1_000],
  ['in time', 1_000, 1_000],
  ['in time', 3_600_000, 60_000],
])(
  'a snapshot that is %s and failed after %p ms is tried again after a rest as long, a minute at most',
  async (due, took_ms, rest_ms) => {
    const { now, made, look, snapshotting } = site(async () => {
      throw new Error('disk full')
    })
    if (due === 'late') now.rows = LIMITS.rows_waiting_max
    now.took_ms = took_ms
    now.seq = 100
    for (const [after_ms, rounds] of [
      [0, 1],
      [rest_ms - 1, 1],
      [1, 2],
    ] as const) {
      now.ms += after_ms
      await look()
      expect(made).toHaveLength(rounds)
    }
    await snapshotting.close()
  },
)

test('a snapshot that is due for its rows is late, one for its records is not', async () => {
  const { now, late, look, snapshotting } = site()
  for (const more of [0, 1]) {
    now.seq += 100
    now.rows = LIMITS.rows_waiting_max / 4 + more
    await look()
  }
  expect(late).toEqual([false, true])
  await snapshotting.close()
})

test.skipIf(process.platform !== 'linux').each([
  ['in time', false, constants.priority.PRIORITY_LOW],
  ['late', true, Math.min(constants.priority.PRIORITY_LOW, getPriority() + 5)],
])('the thread of a snapshot that is %s has its priority', (_, is_late, priority) =>
  withFolder(async (dir) => {
    const tasks = () => readdirSync('/proc/self/task')
    const before = new Set(tasks())
    const worker = new Worker(new URL('../../../engine/snapshots/snapshot_worker.ts', import.meta.url))
    const replied = new Promise((resolve) => {
      worker.onmessage = resolve
    })
    const source = {
      journal_dir: dir,
      snapshots_dir: dir,
      stores_dir: dir,
      journal_key: KEY,
      retention_ms: 0,
    }
    const point = { seq: 1, head: new Uint8Array(32), unix_ms: 0, newest: undefined }
    worker.postMessage({ source, point, is_late } satisfies Request)
    await replied
    const nice = (task: string) =>
      Number(readFileSync(`/proc/self/task/${task}/stat`, 'latin1').split(') ')[1]!.split(' ')[16])
    expect(
      tasks()
        .filter((task) => !before.has(task))
        .map(nice),
    ).toContain(priority)
    worker.terminate()
  }),
)

test('lookups find rows that a snapshot takes before the state drops them', async () => {
  const { now, steps, look, snapshotting } = site()
  now.seq = 100
  await look()
  expect(steps).toEqual(['lookups find the rows', 'the state drops them'])
  await snapshotting.close()
})

test('a failure is counted and tried again, and the journal keeps everything meanwhile', async () => {
  let fails = true
  const { now, made, retired, look, snapshotting } = site(async () => {
    if (fails) throw new Error('disk full')
    return { ...MADE, retire_before: 50 }
  })
  now.seq = 100
  await look()
  expect(snapshotting).toMatchObject({ failures: 1, newest: undefined })
  expect(retired).toEqual([])
  fails = false
  await look()
  expect(made).toHaveLength(2)
  expect(snapshotting).toMatchObject({ failures: 1, newest: { seq: 100 } })
  // The position on chain was not seen by a round before.
  expect(retired).toEqual([])
  now.seq = 200
  await look()
  expect(retired).toEqual([50])
  await snapshotting.close()
})

test('the two newest snapshots are kept, and the one before them until the next is journaled', async () => {
  const { now, pruned, look, snapshotting } = site()
  for (const seq of [100, 200]) {
    now.seq = seq
    await look()
  }
  let journaled = () => {}
  now.submitting = new Promise((resolve) => {
    journaled = resolve
  })
  now.seq = 300
  await look()
  expect(pruned).toEqual([[100], [200, 100]])
  expect(snapshotting.kept).toEqual([200, 100])
  journaled()
  await snapshotting.stop()
  expect(pruned).toEqual([[100], [200, 100], [300, 200]])
})

test('segments go up to the position that the chain showed a round ago, and a position far behind is moved', async () => {
  const { now, retired, covered, look, snapshotting } = site(async () => ({ ...MADE, retire_before: 50 }))
  now.covered = 20
  for (const seq of [100, 200, 300]) {
    now.seq = seq
    await look()
    now.ms += 10_000
  }
  expect(retired).toEqual([21, 21])
  expect(covered).toEqual([100, 200, 300])
  now.covered = 290
  for (const seq of [400, 500]) {
    now.seq = seq
    await look()
    now.ms += 10_000
  }
  expect(retired).toEqual([21, 21, 21, 50])
  expect(covered).toEqual([100, 200, 300])
  await snapshotting.close()
})

test('a replay that disagrees ends the process', async () => {
  const { now, fatal, look, snapshotting } = site(async () => {
    throw new SnapshotDisagrees('an auction ends otherwise')
  })
  now.seq = 100
  await look()
  expect(fatal).toHaveLength(1)
  await snapshotting.close()
})

test('after a stop no snapshot is begun', async () => {
  const { now, made, look, snapshotting } = site()
  await snapshotting.close()
  now.seq = 100
  await look()
  expect(made).toHaveLength(0)
})

const real = { ...disk }
afterEach(() => void Object.assign(disk, real))

test('a segment may go when the record behind it is old, not when it is as old as the retention', () =>
  withFolder(async (dir) => {
    const journal = await open(dir, 4_096)
    // One record a second.
    for (let seq = 1; seq <= 60; seq++)
      await journal.append([{ type: 1, unix_ms: seq * 1_000, body: new Uint8Array(300) }])
    const { seq, head } = journal.head()
    const [, ...later] = listSegments(dir, KEY)
    expect(later.length).toBeGreaterThan(3)
    const unused = { snapshots_dir: dir, stores_dir: dir }
    const source = { ...unused, journal_dir: dir, journal_key: KEY, retention_ms: 5_000 }
    const before = (unix_ms: number, of?: number) => retirableBefore(source, { seq, head, unix_ms }, of)
    for (const [at, next] of later.slice(0, -1).entries()) {
      const first_ms = (next.seq + 1) * 1_000
      expect(before(first_ms + source.retention_ms, seq)).toBe(at === 0 ? 0 : later[at - 1]!.seq + 1)
      expect(before(first_ms + source.retention_ms + 1, seq)).toBe(next.seq + 1)
    }
    // A boot that falls back to the snapshot before replays the records behind it.
    const third = later[2]!.seq
    expect(before(1e9, third)).toBe(third + 1)
    expect(before(1e9, third - 1)).toBe(later[1]!.seq + 1)
    expect(before(1e9)).toBe(0)
    await journal.close()
  }))

test('the reserve of the disk is whole while exactly as much is free', async () => {
  let free: number | undefined = LIMITS.disk_reserve_bytes
  disk.freeBytes = async () => {
    if (free === undefined) throw new Error('no answer')
    return free
  }
  const gauge = new DiskGauge('/')
  await gauge.measure()
  expect(gauge.isFull()).toBe(false)
  free -= 1
  await gauge.measure()
  expect(gauge.isFull()).toBe(true)
  // A measurement that fails changes nothing.
  free = undefined
  await gauge.measure()
  expect([gauge.isFull(), gauge.free_bytes]).toEqual([true, LIMITS.disk_reserve_bytes - 1])
})
