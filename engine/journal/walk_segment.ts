/** Classifies the next bytes of a segment: a frame, the end, a torn write, or damage. */

import { isZeroRange } from '../../protocol/bytes'
import type { ChainPoint } from '../../protocol/units'
import { JournalDamaged } from './contract'
import { advance, decodeFrameHeader, FRAME_HEADER_BYTES, frameBytes, unsealFrame } from './frame'
import { SECTOR_BYTES, type SegmentHeader, type SegmentKeys } from './segment_header'

/** A segment in memory with its authenticated header. `name` is for messages. */
export type LoadedSegment = { name: string; header: SegmentHeader; keys: SegmentKeys; bytes: Uint8Array }

/** A position between two frames of a segment. */
export type Position = ChainPoint & { frames: number; offset: number }
type Step = { plain: Uint8Array; next: Position }

export function segmentStart(header: SegmentHeader): Position {
  return { seq: header.seq, head: header.head, frames: 0, offset: SECTOR_BYTES }
}

/**
 * Reads the frame at `from`. Returns undefined at the end of the written frames; a torn last write counts as the end.
 *
 * One frame is one write, and the next write starts only when it is durable. A crash therefore leaves at most one
 * unfinished frame, the last, with some sectors still zero. Every other failure is damage, and so is a zero sector
 * before a later frame: that frame was written only after this one was durable.
 * @throws JournalDamaged
 */
export function readFrame(
  segment: LoadedSegment,
  from: Position,
  group_ends?: (point: ChainPoint) => void,
): Step | undefined {
  const { bytes } = segment
  const at = from.offset
  const damaged = (reason: string, seq = from.seq + 1) => new JournalDamaged(seq, segment.name, at, reason)
  const sector_end = Math.min(at + SECTOR_BYTES, bytes.length)
  if (isZeroRange(bytes, at, sector_end)) {
    if (laterFrame(bytes, sector_end, from.frames)) throw damaged('a written group was erased')
    return undefined
  }
  if (sector_end - at < FRAME_HEADER_BYTES) return undefined
  const header = decodeFrameHeader(bytes, at)
  if (header === undefined) throw damaged('the header of a group is not what was written')
  if (header.frame !== from.frames || header.seq_first !== from.seq + 1)
    throw damaged('a group is out of place')
  const end = at + frameBytes(header.plain_bytes)
  if (end > bytes.length) return undefined
  const plain = unsealFrame(bytes, at, header, from.head, segment.keys.frame)
  if (plain === undefined) {
    if (!hasZeroSector(bytes, at, end)) throw damaged('a group does not authenticate')
    if (!isZeroRange(bytes, end, bytes.length)) throw damaged('part of a written group was erased')
    return undefined
  }
  const point = advance(plain, header, from, group_ends)
  if (typeof point === 'number') throw damaged('a record fails its checksum', point)
  return { plain, next: { ...point, frames: from.frames + 1, offset: end } }
}

/**
 * Checks that a segment ends exactly where its successor's header says.
 * @throws JournalDamaged
 */
export function checkSegmentEnd(segment: LoadedSegment, end: Position, successor: SegmentHeader): void {
  const matches =
    end.frames === successor.previous_frames &&
    end.offset === successor.previous_end &&
    end.seq === successor.seq &&
    Buffer.from(end.head).equals(successor.head)
  if (matches) return
  throw new JournalDamaged(
    end.seq + 1,
    segment.name,
    end.offset,
    'the segment ends before its successor begins',
  )
}

function hasZeroSector(bytes: Uint8Array, from: number, to: number): boolean {
  for (let at = from; at < to; at += SECTOR_BYTES) if (isZeroRange(bytes, at, at + SECTOR_BYTES)) return true
  return false
}

/** Frames start at sectors. The header of a later frame proves that frame number `frame` was durable. */
function laterFrame(bytes: Uint8Array, from: number, frame: number): boolean {
  for (let at = from; at < bytes.length; at += SECTOR_BYTES) {
    const header = decodeFrameHeader(bytes, at)
    if (header !== undefined && header.frame > frame) return true
  }
  return false
}
