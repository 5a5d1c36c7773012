/** Reads durable groups in order, verifies every byte, and finds where the journal ends. */

import { join } from 'node:path'
import type { ChainPoint } from '../../protocol/units'
import { releaseBytes } from '../memory/idle_gc'
import { type Chunk, JournalDamaged } from './contract'
import { disk, writeWhole } from './disk'
import { judged, listSegments, loadSegment, segmentName, syncFolder, uncache } from './segment_files'
import type { SegmentHeader } from './segment_header'
import { checkSegmentEnd, type LoadedSegment, type Position, readFrame, segmentStart } from './walk_segment'

/** Size at which a chunk is sent to the reading thread, and distance of the starts within a verified segment. */
const CHUNK_BYTES = 1024 * 1024

/** A verified place where reading may begin: the bytes before it are not decrypted again. */
export type Start = { segment: number; at: Position }

export type SegmentReader = {
  /** Whole groups, at least one unless `last`; a chunk may begin with records below from_seq. */
  next(): Chunk
  /** Releases the loaded segment when reading stops before the last chunk. */
  stop(): void
}

/**
 * @param segments headers of all segments, as of now
 * @param end durable end, as of now; later bytes are not read. Without an `offset` the frame that contains `seq` is
 * the last: a thread that does not write the journal knows only the seq
 * @param expected places between groups, ascending and from `from_seq` - 1 on, that the chain must pass as far as it is read
 * @param starts places that this process has verified, ascending; those that are read now are added
 * @throws RangeError when the records from `from_seq` on are retired or do not exist yet
 */
export function readSegments(
  where: { dir: string; key: Uint8Array },
  segments: readonly SegmentHeader[],
  end: Pick<Position, 'seq'> & Partial<Pick<Position, 'offset'>>,
  from_seq: number,
  expected: readonly ChainPoint[],
  starts: Start[] = [],
): SegmentReader {
  const first = segments[0] as SegmentHeader
  if (from_seq <= first.seq) throw new RangeError(`records before seq ${first.seq + 1} are retired`)
  if (from_seq > end.seq + 1) throw new RangeError(`the journal ends at seq ${end.seq}`)
  // Several segments start at the same seq when a process wrote nothing: take the last one.
  let index = segments.findLastIndex((segment) => segment.seq < from_seq)
  let segment: LoadedSegment | undefined
  let at = startOf(segments[index] as SegmentHeader, starts, from_seq)
  const [anchor, remember] = [anchorCheck(expected), startKeeper(starts)]
  anchor.see(at)

  function stop(): void {
    if (segment !== undefined) releaseBytes(segment.bytes)
    segment = undefined
  }

  /** The next frame; `switched` at the end of a segment. */
  function step(): Uint8Array | 'switched' | undefined {
    const successor = segments[index + 1]
    if (end.offset === undefined ? at.seq >= end.seq : successor === undefined && at.offset === end.offset) {
      stop()
      return undefined
    }
    segment ??= loadSegment(where.dir, segments[index] as SegmentHeader, where.key)
    if (successor === undefined || at.frames < successor.previous_frames) {
      const frame = writtenFrame(where.dir, segment, at, anchor.see)
      at = frame.next
      anchor.passed(at.seq)
      remember(segment.header.number, at)
      return frame.plain
    }
    checkSegmentEnd(segment, at, successor)
    stop()
    index++
    at = segmentStart(successor)
    return 'switched'
  }

  return {
    next() {
      const parts: Uint8Array[] = []
      let bytes = 0
      let from: Chunk['from']
      while (bytes < CHUNK_BYTES) {
        const { seq, head } = at
        const plain = step()
        if (plain === undefined) return { groups: concat(parts, bytes), last: true, from, end: placeOf(at) }
        if (plain === 'switched' && bytes > 0) break
        if (plain === 'switched') continue
        // A frame whose records all precede from_seq is verified and skipped.
        if (at.seq < from_seq) releaseBytes(plain)
        else {
          from ??= { point: { seq, head }, author: (segments[index] as SegmentHeader).author }
          parts.push(plain)
          bytes += plain.length
        }
      }
      return { groups: concat(parts, bytes), last: false, from, end: placeOf(at) }
    },
    stop,
  }
}

const placeOf = ({ seq, head }: Position): ChainPoint => ({ seq, head })

/** The last known place before `from_seq` in the segment. */
function startOf(segment: SegmentHeader, starts: readonly Start[], from_seq: number): Position {
  const start = starts.findLast((one) => one.segment === segment.number && one.at.seq < from_seq)
  return start?.at ?? segmentStart(segment)
}

/** Adds places of a read unless a start is less than a chunk before them. */
function startKeeper(starts: Start[]) {
  let [read, due] = [0, 0]
  return (segment: number, at: Position): void => {
    if (segment === read && at.offset < due) return
    const place = starts.findLastIndex(
      (one) => one.segment < segment || (one.segment === segment && one.at.offset <= at.offset),
    )
    const known = starts[place]
    due = (known?.segment === segment ? known.at.offset : 0) + CHUNK_BYTES
    if (at.offset >= due) {
      starts.splice(place + 1, 0, { segment, at })
      due = at.offset + CHUNK_BYTES
    }
    read = segment
  }
}

/** Compares the heads at the expected places, which exist because they are ends of groups. */
function anchorCheck(expected: readonly ChainPoint[]) {
  const left = [...expected]
  const differs = (seq: number) =>
    new JournalDamaged(seq + 1, 'chain', 0, 'the chain before it is not the one that was expected')
  return {
    see(point: ChainPoint): void {
      const next = left[0]
      if (next?.seq !== point.seq) return
      if (!Buffer.from(point.head).equals(next.head)) throw differs(point.seq)
      left.shift()
    },
    passed(seq: number): void {
      const next = left[0]
      if (next !== undefined && seq >= next.seq) throw differs(next.seq)
    },
  }
}

/** The frame at `at`, which the segment once held. @throws JournalDamaged */
function writtenFrame(
  dir: string,
  segment: LoadedSegment,
  at: Position,
  group_ends?: (point: ChainPoint) => void,
) {
  return judged(dir, segment, () => {
    const frame = readFrame(segment, at, group_ends)
    if (frame !== undefined) return frame
    throw new JournalDamaged(at.seq + 1, segment.name, at.offset, 'groups that were written are missing')
  })
}

/** Releases the parts. */
function concat(parts: Uint8Array[], bytes: number): Uint8Array {
  const all = new Uint8Array(bytes)
  let at = 0
  for (const part of parts) {
    all.set(part, at)
    at += part.length
    releaseBytes(part)
  }
  return all
}

type Recovered = {
  segments: SegmentHeader[]
  /** End of the last segment; undefined without a segment. */
  end: Position | undefined
  /** Of the last segment. */
  starts: Start[]
}

/**
 * Finds where the journal ends: verifies every segment header and every group of the last segment, and ends before a
 * torn last write. Groups of earlier segments are verified when they are read. Modifies nothing.
 * @throws JournalDamaged
 */
export function recover(dir: string, key: Uint8Array): Recovered {
  return walkTail(dir, key)
}

/**
 * Recovers, then makes the recovered records durable. Only the last frame can be in memory alone: its process may have ended
 * before the sync, or after a failed one, which leaves pages that the kernel takes for written. So its verified bytes are
 * written again and synced, before anything is built on them.
 * @throws JournalDamaged, or the error of the disk
 */
export function openTail(dir: string, key: Uint8Array): Recovered {
  const recovered = walkTail(dir, key, (name, frame, at) => {
    const fd = disk.openSync(join(dir, name), 'r+')
    try {
      writeWhole(fd, frame, frame.length, at)
      disk.sync(fd)
    } finally {
      disk.closeSync(fd)
    }
  })
  syncFolder(dir)
  return recovered
}

function walkTail(
  dir: string,
  key: Uint8Array,
  lastFrame: (name: string, frame: Uint8Array, at: number) => void = () => undefined,
): Recovered {
  const segments = listSegments(dir, key)
  const last = segments.at(-1)
  if (last === undefined) return { segments, end: undefined, starts: [] }
  const segment = loadSegment(dir, last, key)
  try {
    const starts: Start[] = []
    const remember = startKeeper(starts)
    let before = segmentStart(last)
    let end = before
    const frame = () => judged(dir, segment, () => readFrame(segment, end))
    for (let step = frame(); step !== undefined; step = frame()) {
      before = end
      end = step.next
      remember(last.number, end)
    }
    lastFrame(segment.name, segment.bytes.subarray(before.offset, end.offset), before.offset)
    return { segments, end, starts }
  } finally {
    releaseBytes(segment.bytes)
  }
}

/**
 * Verifies every byte that counts of a segment behind which another one begins.
 * @throws JournalDamaged
 */
export function checkSegment({ dir, key }: { dir: string; key: Uint8Array }, number: number): void {
  // A start reads the medium, not the cache.
  uncache(dir, segmentName(number))
  const [header, successor] = listSegments(dir, key, (one) => one === number || one === number + 1)
  const segment = loadSegment(dir, header!, key)
  try {
    let at = segmentStart(header!)
    while (at.frames < successor!.previous_frames) {
      const { plain, next } = writtenFrame(dir, segment, at)
      releaseBytes(plain)
      at = next
    }
    checkSegmentEnd(segment, at, successor!)
  } finally {
    releaseBytes(segment.bytes)
  }
}
