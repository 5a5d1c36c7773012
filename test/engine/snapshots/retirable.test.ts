/** Segments that a snapshot round may retire: behind the snapshot before, with records older than the retention alone. */
import { afterEach, expect, test } from 'bun:test'
import { DiskGauge, disk } from '../../../engine/journal/disk'
import { listSegments } from '../../../engine/journal/segment_files'
import { LIMITS } from '../../../engine/limits'
import { retirableBefore } from '../../../engine/snapshots/make_snapshot'
import { KEY, open, withFolder } from '../journal/folder'

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
    // A boot that falls back to the snapshot before replays what follows that.
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
