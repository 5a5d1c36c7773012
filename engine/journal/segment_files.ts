/** Names, locks, loads and syncs the journal's files. */

import { Database } from 'bun:sqlite'
import { dirname, join } from 'node:path'
import { releaseBytes } from '../memory/idle_gc'
import { JournalDamaged, JournalLocked } from './contract'
import { disk, readSurely, readWhole } from './disk'
import { decodeSegmentHeader, SECTOR_BYTES, type SegmentHeader } from './segment_header'
import type { LoadedSegment } from './walk_segment'

const SEGMENT_NAME = /^(\d{10})\.segment$/
/** The file of written zeros that becomes the next segment, and the same file while it is being written. */
export const SPARE_NAME = 'spare.zeros'
export const UNFINISHED_SPARE_NAME = 'spare.unfinished'

export const segmentName = (number: number): string => `${String(number).padStart(10, '0')}.segment`

export function segmentNumber(name: string): number | undefined {
  const digits = SEGMENT_NAME.exec(name)?.[1]
  return digits === undefined ? undefined : Number(digits)
}

/**
 * Headers of the wanted segments in order: authentic, numbered without a gap, with seqs that never decrease.
 * @throws JournalDamaged
 */
export function listSegments(
  dir: string,
  key: Uint8Array,
  wanted: (number: number) => boolean = () => true,
): SegmentHeader[] {
  const numbers = disk
    .list(dir)
    .map(segmentNumber)
    .filter((number) => number !== undefined)
    .filter(wanted)
    .sort((a, b) => a - b)
  const headers: SegmentHeader[] = []
  for (const number of numbers) {
    const before = headers.at(-1)
    const seq = (before?.seq ?? 0) + 1
    const damaged = (reason: string) => new JournalDamaged(seq, segmentName(number), 0, reason)
    const opened = readOpened(dir, segmentName(number), 0, SECTOR_BYTES, (header) => {
      const found = decodeSegmentHeader(header, number, key)
      if (found !== undefined) return found
      throw damaged('the header of a segment does not authenticate (damage, another key, or another build)')
    })
    if (before !== undefined && number !== before.number + 1)
      throw damaged('a segment is missing before this one')
    if (before !== undefined && opened.header.seq < before.seq) throw damaged('a segment is out of place')
    headers.push(opened.header)
  }
  return headers
}

/** Reads a whole segment into memory. */
export function loadSegment(dir: string, header: SegmentHeader, key: Uint8Array): LoadedSegment {
  const name = segmentName(header.number)
  return readOpened(dir, name, 0, Number.MAX_SAFE_INTEGER, (bytes) => {
    const opened = decodeSegmentHeader(bytes, header.number, key)
    if (opened === undefined)
      throw new JournalDamaged(header.seq + 1, name, 0, 'the header of a segment changed')
    return { name, header: opened.header, keys: opened.keys, bytes }
  })
}

/** Reads up to `bytes_max` bytes, fewer at the end of the file. */
function readRange(dir: string, name: string, from: number, bytes_max: number): Uint8Array {
  return readOpened(dir, name, from, bytes_max, (bytes) => bytes)
}

/** The same, opened by `open`: where that throws, the bytes are read again from the medium. */
export function readOpened<T>(
  dir: string,
  name: string,
  from: number,
  bytes_max: number,
  open: (bytes: Uint8Array) => T,
): T {
  const path = join(dir, name)
  const fd = disk.openSync(path, 'r')
  try {
    return readSurely(fd, () => {
      const bytes = new Uint8Array(Math.max(0, Math.min(bytes_max, disk.size(path) - from)))
      const filled = readWhole(fd, bytes, from)
      return open(filled === bytes.length ? bytes : bytes.subarray(0, filled))
    })
  } finally {
    disk.closeSync(fd)
  }
}

/**
 * `judge` of a segment, again with its bytes as the medium has them before it counts as damaged: a cached page may be wrong
 * where the medium is not.
 */
export function judged<T>(dir: string, segment: LoadedSegment, judge: () => T): T {
  try {
    return judge()
  } catch (error) {
    if (!(error instanceof JournalDamaged)) throw error
    uncache(dir, segment.name)
    const bytes = readRange(dir, segment.name, 0, segment.bytes.length)
    segment.bytes.set(bytes)
    releaseBytes(bytes)
    return judge()
  }
}

/** The next reads of a file are of the medium. */
export function uncache(dir: string, name: string): void {
  const fd = disk.openSync(join(dir, name), 'r')
  disk.uncache(fd)
  disk.closeSync(fd)
}

/** Makes created, renamed and deleted names durable. */
export function syncFolder(dir: string): void {
  const fd = disk.openSync(dir, 'r')
  try {
    disk.sync(fd)
  } finally {
    disk.closeSync(fd)
  }
}

/** Creates a folder whose name is durable before anything in it is. */
export function makeFolder(dir: string): void {
  disk.mkdir(dir)
  syncFolder(dirname(dir))
}

/**
 * Locks a folder against other processes and this one, by SQLite's exclusive lock on an empty database: the kernel
 * drops it with the process, even after kill -9. A pid file would need a staleness check, which two processes could
 * pass at the same time.
 * @returns release
 * @throws JournalLocked, or an Error when the disk is full or fails
 */
export function lockFolder(dir: string): () => void {
  makeFolder(dir)
  const lock = new Database(join(dir, 'journal.lock'), { create: true })
  try {
    lock.run('PRAGMA busy_timeout = 0')
    lock.run('BEGIN EXCLUSIVE')
  } catch (cause) {
    lock.close()
    if ((cause as { code?: string }).code === 'SQLITE_BUSY')
      throw new JournalLocked(`another process has ${dir} open`, { cause })
    throw new Error(`${dir} cannot be locked: ${(cause as Error).message}`, { cause })
  }
  return () => lock.close()
}
