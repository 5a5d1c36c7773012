/** Owns the bytes of a group: the records of one append, as they are hashed into the chain. */
import { crc32 } from 'node:zlib'
import type { JournalRecord, NewRecord } from './contract'
import { readSafe, readU32, setSafe } from './segment_header'

/** Group: bytes u32 (all of it), records u32, salt 16, records. */
export const GROUP_HEADER_BYTES = 24
export const GROUP_SALT_AT = 8
/** Record: body bytes u32, seq u64, type u16, zero u16, unix_ms u64, body, CRC-32 of all before it. */
const RECORD_HEADER_BYTES = 24
const RECORD_BYTES = RECORD_HEADER_BYTES + 4

/** Encodes one group; its 16 salt bytes are left zero for the writer to fill. */
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

export const groupBytes = (bytes: Uint8Array, at: number): number => readU32(bytes, at)
export const groupRecords = (bytes: Uint8Array, at: number): number => readU32(bytes, at + 4)

/**
 * Checks the records of the group at `at` and returns the first seq that is wrong, or 0 when all are right. Guards
 * against memory that changed between encoding and encryption, which no cipher can see.
 */
export function firstBadRecord(bytes: Uint8Array, at: number, seq_first: number): number {
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

/** Appends to `into` every record of the checked groups in `bytes` with seq >= from_seq; bodies are views. */
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
