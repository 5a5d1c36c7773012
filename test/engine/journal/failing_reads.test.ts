/** A read that the disk fails once, or bytes that a cache has wrong, judge no file: it is read again from the medium. */
import { afterEach, expect, test } from 'bun:test'
import { readdirSync, readFileSync, statfsSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { JournalDamaged } from '../../../engine/journal/contract'
import { disk } from '../../../engine/journal/disk'
import { checkSegment, recover } from '../../../engine/journal/read_segments'
import { openSnapshotStore } from '../../../engine/journal/snapshot_store'
import { coverable } from '../../../engine/machine/state/past'
import { Stores } from '../../../engine/stores/stores'
import { seeded, World } from '../../kit/venue/machine_world'
import { KEY, records, segmentFiles, withFolder, write } from './folder'

const real = { ...disk }
afterEach(() => void Object.assign(disk, real))

/** The reads from number `first` on fail, or give wrong bytes, until the cached pages were dropped `times` times. */
function trouble(kind: 'EIO' | 'wrong', first: number, times: number): { reads: number } {
  const seen = { reads: 0 }
  let dropped = 0
  disk.uncache = (fd) => {
    if (seen.reads >= first) dropped++
    real.uncache(fd)
  }
  disk.read = (...call) => {
    const is_bad = ++seen.reads >= first && dropped < times
    if (is_bad && kind === 'EIO') throw Object.assign(new Error('EIO'), { code: 'EIO' })
    const got = real.read(...call)
    const [, into, from] = call
    if (is_bad && got > 0) into[from + (got >> 1)]! ^= 1
    return got
  }
  return seen
}

/** Every read of `use` in turn is bad once. */
function eachRead(use: () => void): void {
  const sound = trouble('EIO', Number.POSITIVE_INFINITY, 0)
  use()
  expect(sound.reads).toBeGreaterThan(0)
  for (const kind of ['EIO', 'wrong'] as const)
    for (let first = 1; first <= sound.reads; first++) {
      trouble(kind, first, 1)
      use()
    }
}

const groups = Array.from({ length: 40 }, (_, i) => records(i, 3, 300))

test('a read that gives fewer bytes than are asked for is continued behind them', async () => {
  await withFolder(async (dir) => {
    await write(dir, groups, 8_192)
    const { end } = recover(dir, KEY)
    let reads = 0
    disk.read = (fd, into, from, length, at) => {
      reads++
      return real.read(fd, into, from, Math.min(length, 100), at)
    }
    expect(recover(dir, KEY).end).toEqual(end)
    checkSegment({ dir, key: KEY }, 1)
    expect(reads).toBeGreaterThan(80)
  })
})

test('a journal is recovered and an old segment verified past any one bad read', async () => {
  await withFolder(async (dir) => {
    await write(dir, groups, 8_192)
    const { end } = recover(dir, KEY)
    expect(end!.seq).toBe(120)
    eachRead(() => expect(recover(dir, KEY).end).toEqual(end))
    eachRead(() => checkSegment({ dir, key: KEY }, 1))
  })
})

test('damage that the medium has is damage', async () => {
  await withFolder(async (dir) => {
    await write(dir, groups, 8_192)
    const [path] = segmentFiles(dir)
    const bytes = new Uint8Array(await Bun.file(path!).arrayBuffer())
    bytes[5_000]! ^= 1
    await Bun.write(path!, bytes)
    expect(() => checkSegment({ dir, key: KEY }, 1)).toThrow(JournalDamaged)
  })
})

test('a snapshot counts past any one bad read; a disk that gives none of it is no reason to pass it over', async () => {
  await withFolder(async (dir) => {
    const store = openSnapshotStore({ dir: join(dir, 'snapshots'), key: KEY })
    const point = { seq: 7, head: new Uint8Array(32).fill(7) }
    const state_hash = await store.writeSnapshot(point, () => [new Uint8Array(2_500_000).fill(3)], undefined)
    eachRead(() => store.verify(7))
    const newest = () => store.newestValid(async () => state_hash)
    trouble('wrong', 2, 1)
    expect((await newest()).snapshot?.seq).toBe(7)
    const outcome = () =>
      newest().then(
        () => 'passed over',
        ({ code }) => code,
      )
    trouble('EIO', 2, 100)
    expect(await outcome()).toBe('EIO')
    // The disk gives the header each time.
    disk.read = (...call) => {
      if (call[4] > 0) throw Object.assign(new Error('EIO'), { code: 'EIO' })
      return real.read(...call)
    }
    expect(await outcome()).toBe('EIO')
    trouble('wrong', 2, 100)
    expect((await newest()).rejected).toHaveLength(1)
  })
})

/** The cache has the written bytes, the medium a changed byte in each read. */
function spoiltMedium(): void {
  let is_cached = true
  disk.uncache = () => {
    is_cached = false
  }
  disk.read = (...call) => {
    const got = real.read(...call)
    const [, into, from] = call
    if (!is_cached && got > 0) into[from + (got >> 1)]! ^= 1
    return got
  }
}

test('a check reads the medium, not the cache', async () => {
  await withFolder(async (dir) => {
    await write(join(dir, 'journal'), groups, 8_192)
    const snapshots = openSnapshotStore({ dir: join(dir, 'snapshots'), key: KEY })
    const point = { seq: 7, head: new Uint8Array(32) }
    await snapshots.writeSnapshot(point, () => [new Uint8Array(2_500_000).fill(3)], undefined)
    const stores_at = { dir: join(dir, 'stores'), key: KEY }
    const stores = Stores.empty(stores_at)
    const world = new World()
    world.must({ kind: 'leaves', first_index: 0, leaves: [seeded('leaf')], slot: 1 })
    stores.extend(world.state, coverable(world.state))
    stores.write(7)
    const parts = Stores.checks(stores_at, []).filter(({ name }) => name.endsWith('.part'))
    expect(parts).toHaveLength(1)
    const checks = [
      () => checkSegment({ dir: join(dir, 'journal'), key: KEY }, 1),
      () => snapshots.verify(7),
      () => parts[0]!.verify(),
    ]
    for (const check of checks) {
      check()
      spoiltMedium()
      expect(check).toThrow()
      Object.assign(disk, real)
    }
    const files_open = () => readdirSync('/proc/self/fd').length
    const before = files_open()
    for (let round = 0; round < 12; round++) for (const check of checks) check()
    expect(files_open()).toBeLessThan(before + 12)
    stores.close()
  })
})

test('a snapshot counts whose length the cache has wrong', async () => {
  await withFolder(async (dir) => {
    const store = openSnapshotStore({ dir: join(dir, 'snapshots'), key: KEY })
    const point = { seq: 7, head: new Uint8Array(32) }
    const state_hash = await store.writeSnapshot(point, () => [new Uint8Array(2_000).fill(3)], undefined)
    let is_cached = true
    disk.uncache = () => {
      is_cached = false
    }
    disk.read = (...call) => {
      const got = real.read(...call)
      const [, into, from, , at] = call
      // Magic and seq are before the length of the state.
      if (is_cached && at === 0) into[from + 16]! ^= 1
      return got
    }
    expect((await store.newestValid(async () => state_hash)).snapshot?.seq).toBe(7)
  })
})

const TMPFS = 0x01021994
test.skipIf(statfsSync(tmpdir()).type === TMPFS)(
  'what was dropped from the cache is read from the medium',
  async () => {
    await withFolder(async (dir) => {
      const path = join(dir, 'file')
      const bytes = new Uint8Array(4 * 1024 * 1024).fill(5)
      writeFileSync(path, bytes)
      const fd = disk.openSync(path, 'r+')
      const readFromMedium = () => {
        const before = Number(/^read_bytes: (\d+)/m.exec(readFileSync('/proc/self/io', 'utf8'))![1])
        disk.read(fd, bytes, 0, bytes.length, 0)
        return Number(/^read_bytes: (\d+)/m.exec(readFileSync('/proc/self/io', 'utf8'))![1]) - before
      }
      disk.sync(fd)
      expect(readFromMedium()).toBeLessThan(bytes.length)
      disk.uncache(fd)
      expect(readFromMedium()).toBeGreaterThanOrEqual(bytes.length)
      disk.closeSync(fd)
    })
  },
)
