/** Large bytes are released at once: no thread keeps a segment of 64 MB that it has read. */

import { expect, jest, spyOn, test } from 'bun:test'
import { checkSegment, readSegments, recover } from '../../../engine/journal/read_segments'
import * as segment_files from '../../../engine/journal/segment_files'
import { openSnapshotStore } from '../../../engine/journal/snapshot_store'
import * as walk_segment from '../../../engine/journal/walk_segment'
import { collectWhenQuiet, releaseBytes } from '../../../engine/memory/idle_gc'
import { durableRecords } from '../../../engine/snapshots/make_snapshot'
import { KEY, records, withFolder, write } from '../journal/folder'

/** Runs `body` in a folder of several segments; returns what is left of each segment that was loaded, in bytes. */
async function leftLoaded(body: (dir: string, seq_last: number) => void): Promise<number[]> {
  let left: number[] = []
  await withFolder(async (dir) => {
    const groups = Array.from({ length: 12 }, (_, mark) => records(mark, 10, 400))
    await write(dir, groups)
    const loads = spyOn(segment_files, 'loadSegment')
    try {
      body(dir, 120)
      left = loads.mock.results.map(({ value }) => (value as walk_segment.LoadedSegment).bytes.length)
    } finally {
      loads.mockRestore()
    }
  })
  return left
}

test('bytes that are let go have no length, nor has a view of them', () => {
  const bytes = new Uint8Array(1_000)
  const view = bytes.subarray(10, 20)
  releaseBytes(bytes)
  expect([bytes.length, view.length]).toEqual([0, 0])
})

test('who recovers keeps no segment', async () => {
  expect(await leftLoaded((dir) => recover(dir, KEY))).toEqual([0])
})

test('who checks an old segment keeps neither it nor what it decrypted', async () => {
  const frames = spyOn(walk_segment, 'readFrame')
  try {
    expect(await leftLoaded((dir) => checkSegment({ dir, key: KEY }, 1))).toEqual([0])
    const left = frames.mock.results.map(({ value }) => (value as { plain: Uint8Array }).plain.length)
    expect(left.length).toBeGreaterThan(2)
    expect(new Set(left)).toEqual(new Set([0]))
  } finally {
    frames.mockRestore()
  }
})

test('who reads to the end keeps no segment, nor does who stops early', async () => {
  const read = (dir: string, chunks: number) => {
    const { segments, end } = recover(dir, KEY)
    const reader = readSegments({ dir, key: KEY }, segments, end!, 1, [])
    for (let at = 0; at < chunks && !reader.next().last; at++);
    reader.stop()
  }
  const whole = await leftLoaded((dir) => read(dir, Number.POSITIVE_INFINITY))
  expect(whole.length).toBeGreaterThan(2)
  expect(new Set(whole)).toEqual(new Set([0]))
  expect(new Set(await leftLoaded((dir) => read(dir, 1)))).toEqual(new Set([0]))
})

test('who takes the first records only keeps no segment', async () => {
  const left = await leftLoaded((dir, seq_last) => {
    for (const chunk of durableRecords({ dir, key: KEY }, 1, [], seq_last)) {
      expect(chunk.length).toBeGreaterThan(0)
      break
    }
  })
  expect(left.length).toBeGreaterThan(0)
  expect(new Set(left)).toEqual(new Set([0]))
})

test('a block of a snapshot is let go when the next is asked for', async () => {
  await withFolder(async (dir) => {
    const store = openSnapshotStore({ dir, key: KEY })
    const point = { seq: 1, head: new Uint8Array(32) }
    const hash = await store.writeSnapshot(point, () => [new Uint8Array(3 * 1024 * 1024)], undefined)
    const { snapshot } = await store.newestValid(async () => hash)
    const blocks = [...snapshot!.blocks()]
    expect(blocks.map(({ length }) => length)).toEqual([0, 0, 0])
  })
})

test('a thread collects once after its work, and not while it works', () => {
  jest.useFakeTimers()
  try {
    let collected = 0
    const worked = collectWhenQuiet(() => collected++, 1_000)
    jest.advanceTimersByTime(10_000)
    expect(collected).toBe(0)
    for (let second = 0; second < 5; second++) {
      worked()
      jest.advanceTimersByTime(900)
    }
    expect(collected).toBe(0)
    jest.advanceTimersByTime(10_000)
    expect(collected).toBe(1)
    worked()
    jest.advanceTimersByTime(10_000)
    expect(collected).toBe(2)
  } finally {
    jest.useRealTimers()
  }
})

test('a thread that had much to do and goes on with a little collects, and not for the little alone', () => {
  jest.useFakeTimers()
  try {
    let collected = 0
    const worked = collectWhenQuiet(() => collected++, 1_000)
    const second = (pieces: number) => {
      for (let piece = 0; piece < pieces; piece++) worked()
      jest.advanceTimersByTime(1_000)
    }
    for (let at = 0; at < 10; at++) second(1_000)
    expect(collected).toBe(0)
    second(3)
    expect(collected).toBe(1)
    for (let at = 0; at < 80; at++) second(3)
    expect(collected).toBe(1)
    for (let at = 0; at < 10; at++) second(3)
    expect(collected).toBe(2)
  } finally {
    jest.useRealTimers()
  }
})
