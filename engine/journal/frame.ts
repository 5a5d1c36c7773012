/** Encodes journal frames: groups of records, encrypted and bound to their place in the hash chain. */

import { createCipheriv, createDecipheriv } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { readSafe, readU32, setSafe } from '../memory/safe_integers'
import type { JournalRecord, NewRecord } from './contract'
import { type ChainPoint, SECTOR_BYTES } from './segment_header'

// Groups: the records of one append, in the bytes that the chain hashes.

/** Group: bytes u32 (of the whole group), records u32, salt 16, records. */
const GROUP_HEADER_BYTES = 24
export const GROUP_SALT_AT = 8
/** Record: body bytes u32, seq u64, type u16, zero u16, unix_ms u64, body, CRC-32 of the bytes before it. */
const RECORD_HEADER_BYTES = 24
const RECORD_BYTES = RECORD_HEADER_BYTES + 4

/** Encodes one group with zeros as salt: the writer fills it. */
export function encodeGroup(records: readonly NewRecord[], seq_first: number): Uint8Array<ArrayBuffer> {
  let size = GROUP_HEADER_BYTES
  for (const record of records) size += RECORD_BYTES + record.body.length
  const bytes = new Uint8Array(size)
  const view = new DataView(bytes.buffer)
  view.setUint32(0, size, true)
  view.setUint32(4, records.length, true)
  let at = GROUP_HEADER_BYTES
  let seq = seq_first
  for (const { type, unix_ms, body } of records) {
    view.setUint32(at, body.length, true)
    setSafe(view, at + 4, seq++)
    view.setUint16(at + 12, type, true)
    setSafe(view, at + 16, unix_ms)
    bytes.set(body, at + RECORD_HEADER_BYTES)
    const end = at + RECORD_HEADER_BYTES + body.length
    view.setUint32(end, crc32(bytes.subarray(at, end)), true)
    at = end + 4
  }
  return bytes
}

const groupBytes = (bytes: Uint8Array, at: number): number => readU32(bytes, at)
export const groupRecords = (bytes: Uint8Array, at: number): number => readU32(bytes, at + 4)

/**
 * Returns the seq of the first invalid record of the group at `at`, or 0. The record CRCs detect memory corruption
 * between encoding and encryption, which authentication cannot.
 */
function firstBadRecord(bytes: Uint8Array, at: number, seq_first: number): number {
  const end = at + groupBytes(bytes, at)
  const count = groupRecords(bytes, at)
  let next = at + GROUP_HEADER_BYTES
  for (let i = 0; i < count; i++) {
    if (next + RECORD_BYTES > end) return seq_first + i
    const crc_at = next + RECORD_HEADER_BYTES + readU32(bytes, next)
    if (crc_at + 4 > end || readSafe(bytes, next + 4) !== seq_first + i) return seq_first + i
    if (crc32(bytes.subarray(next, crc_at)) !== readU32(bytes, crc_at)) return seq_first + i
    next = crc_at + 4
  }
  return next === end ? 0 : seq_first + count
}

/** Appends to `into` the records with seq >= from_seq of verified groups; bodies are views of `bytes`. */
export function readRecords(bytes: Uint8Array, from_seq: number, into: JournalRecord[]): void {
  for (let at = 0; at < bytes.length; at += groupBytes(bytes, at)) {
    const count = groupRecords(bytes, at)
    let next = at + GROUP_HEADER_BYTES
    for (let i = 0; i < count; i++) {
      const body_at = next + RECORD_HEADER_BYTES
      const body_end = body_at + readU32(bytes, next)
      const seq = readSafe(bytes, next + 4)
      if (seq >= from_seq) {
        into.push({
          seq,
          type: (bytes[next + 12] as number) | ((bytes[next + 13] as number) << 8),
          unix_ms: readSafe(bytes, next + 16),
          body: bytes.subarray(body_at, body_end),
        })
      }
      next = body_end + 4
    }
  }
}

// Frames: the groups of one disk write, encrypted together.

/**
 * Frame header, in plaintext: magic u32, CRC-32 of the next 40 bytes, frame number in the segment u32, plaintext bytes
 * u32, seq of the first record u64, records u32, groups u32, epoch u64, zero u64; then the GCM tag.
 * The CRC distinguishes a damaged header (JournalDamaged) from a valid header of an unfinished frame (a torn write).
 */
export const FRAME_HEADER_BYTES = 64
const MAGIC = 0x314a4154
const TAG_AT = 48

export type FrameHeader = {
  frame: number
  plain_bytes: number
  seq_first: number
  records: number
  groups: number
  epoch: number
}

/** Rounded up to sectors: no write touches a durable sector, and padding is encrypted, so no written sector is zero. */
export function frameBytes(plain_bytes: number): number {
  return Math.ceil((FRAME_HEADER_BYTES + plain_bytes) / SECTOR_BYTES) * SECTOR_BYTES
}

export function encodeFrameHeader(into: Uint8Array, header: FrameHeader): void {
  const view = new DataView(into.buffer, into.byteOffset, FRAME_HEADER_BYTES)
  view.setUint32(0, MAGIC, true)
  view.setUint32(8, header.frame, true)
  view.setUint32(12, header.plain_bytes, true)
  setSafe(view, 16, header.seq_first)
  view.setUint32(24, header.records, true)
  view.setUint32(28, header.groups, true)
  setSafe(view, 32, header.epoch)
  setSafe(view, 40, 0)
  view.setUint32(4, crc32(into.subarray(8, TAG_AT)), true)
}

/** The header at `at`; undefined for a wrong magic or CRC. */
export function decodeFrameHeader(segment: Uint8Array, at: number): FrameHeader | undefined {
  if (at + FRAME_HEADER_BYTES > segment.length) return undefined
  if (readU32(segment, at) !== MAGIC) return undefined
  if (readU32(segment, at + 4) !== crc32(segment.subarray(at + 8, at + TAG_AT))) return undefined
  return {
    frame: readU32(segment, at + 8),
    plain_bytes: readU32(segment, at + 12),
    seq_first: readSafe(segment, at + 16),
    records: readU32(segment, at + 24),
    groups: readU32(segment, at + 28),
    epoch: readSafe(segment, at + 32),
  }
}

/** Scratch buffers: the cipher copies both. */
const nonce_bytes = new Uint8Array(12)
const nonce_view = new DataView(nonce_bytes.buffer)
const associated_bytes = new Uint8Array(TAG_AT + 32)

/** The frame number is the nonce: each segment has its own key and uses each number once. */
function nonceOf(frame: number): Uint8Array {
  nonce_view.setUint32(0, frame, true)
  return nonce_bytes
}

function associated(header: Uint8Array, head: Uint8Array): Uint8Array {
  for (let i = 0; i < TAG_AT; i++) associated_bytes[i] = header[i] as number
  associated_bytes.set(head, TAG_AT)
  return associated_bytes
}

/**
 * Encrypts `groups` into `into` (frameBytes long, frame header included) with AES-256-GCM. Associated data: the header
 * and the chain head before the frame, so a frame decrypts only in its own place in the chain.
 */
export function sealFrame(
  into: Uint8Array,
  header: FrameHeader,
  groups: readonly Uint8Array[],
  head: Uint8Array,
  key: Uint8Array,
): void {
  encodeFrameHeader(into, header)
  const cipher = createCipheriv('aes-256-gcm', key, nonceOf(header.frame))
  cipher.setAAD(associated(into, head))
  let at = FRAME_HEADER_BYTES
  for (const group of groups) {
    into.set(cipher.update(group), at)
    at += group.length
  }
  if (at < into.length) into.set(cipher.update(new Uint8Array(into.length - at)), at)
  cipher.final()
  into.set(cipher.getAuthTag(), TAG_AT)
}

/** Decrypts the frame at `at`; undefined when authentication fails. */
export function unsealFrame(
  segment: Uint8Array,
  at: number,
  header: FrameHeader,
  head: Uint8Array,
  key: Uint8Array,
): Uint8Array | undefined {
  const sealed = segment.subarray(at, at + frameBytes(header.plain_bytes))
  const decipher = createDecipheriv('aes-256-gcm', key, nonceOf(header.frame))
  decipher.setAAD(associated(sealed, head))
  decipher.setAuthTag(sealed.subarray(TAG_AT, FRAME_HEADER_BYTES))
  const plain = decipher.update(sealed.subarray(FRAME_HEADER_BYTES))
  try {
    decipher.final()
  } catch {
    return undefined
  }
  return plain.subarray(0, header.plain_bytes)
}

const chain = new Bun.CryptoHasher('sha256')

/** Chain head after a group. */
export function headAfter(head: Uint8Array, group: Uint8Array): Uint8Array {
  return chain.update(head).update(group).digest()
}

/**
 * Verifies the groups of a decrypted frame against its header and returns the chain point after the frame, or the seq
 * of the first invalid record. `group_ends` is called with the point after each group.
 */
export function advance(
  plain: Uint8Array,
  header: FrameHeader,
  from: ChainPoint,
  group_ends?: (point: ChainPoint) => void,
): ChainPoint | number {
  let point: ChainPoint = { ...from, epoch: header.epoch }
  let at = 0
  for (let i = 0; i < header.groups; i++) {
    if (at + GROUP_HEADER_BYTES > plain.length) return point.seq + 1
    const end = at + groupBytes(plain, at)
    if (end > plain.length || end < at + GROUP_HEADER_BYTES) return point.seq + 1
    const bad = firstBadRecord(plain, at, point.seq + 1)
    if (bad !== 0) return bad
    const seq = point.seq + groupRecords(plain, at)
    point = { seq, head: headAfter(point.head, plain.subarray(at, end)), epoch: header.epoch }
    group_ends?.(point)
    at = end
  }
  return at === plain.length && point.seq === from.seq + header.records ? point : point.seq + 1
}
