/** Encodes journal frames: groups of records, encrypted and bound to their place in the hash chain. */

import { createCipheriv, createDecipheriv, randomFillSync } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { ByteReader, ByteWriter, u16At, u32At, uintAt } from '../../protocol/byte_stream'
import { concatBytes } from '../../protocol/bytes'
import { fixed, struct, tryDecode, u16, u32, uint, type ValueOf, zeros } from '../../protocol/codec'
import type { ChainPoint } from '../../protocol/units'
import type { JournalRecord, NewRecord, StoredGroup } from './contract'
import { SECTOR_BYTES } from './segment_header'

/** The records of one append, which the chain hashes. The trailer follows, the receipt signature of the group. */
const GROUP = struct({
  /** Of header and records. */
  bytes: u32,
  records: u32,
  salt: fixed(16),
  /** Of the tree over the group's commands that receipts prove; zeros without such commands. */
  root: fixed(32),
})
const GROUP_HEADER_BYTES = GROUP.size!
const GROUP_SALT_AT = GROUP.offsetOf('salt')
const TRAILER_BYTES = 64
const NO_SALT = new Uint8Array(16)
/** Before the body of a record; behind the body follows the CRC-32 of both. */
const RECORD = struct({ body_bytes: u32, seq: uint, type: u16, reserved: zeros(2), unix_ms: uint })
const RECORD_HEADER_BYTES = RECORD.size!
const CRC_BYTES = 4
/** A boot reads these fields of every record and group. */
const BYTES_AT = GROUP.offsetOf('bytes')
const RECORDS_AT = GROUP.offsetOf('records')
const SEQ_AT = RECORD.offsetOf('seq')
const BODY_BYTES_AT = RECORD.offsetOf('body_bytes')
const TYPE_AT = RECORD.offsetOf('type')
const RESERVED_AT = RECORD.offsetOf('reserved')
const UNIX_MS_AT = RECORD.offsetOf('unix_ms')

/** Encodes one group with zeros as salt and trailer: the writer fills them by `signGroup`. */
export function encodeGroup(
  records: readonly NewRecord[],
  seq_first: number,
  root: Uint8Array,
): Uint8Array<ArrayBuffer> {
  let bytes = GROUP_HEADER_BYTES
  for (const { body } of records) bytes += RECORD_HEADER_BYTES + body.length + CRC_BYTES
  const to = new ByteWriter(bytes + TRAILER_BYTES)
  GROUP.write(to, { bytes, records: records.length, salt: NO_SALT, root })
  let seq = seq_first
  for (const { type, unix_ms, body } of records) {
    const at = to.length
    RECORD.write(to, { body_bytes: body.length, seq: seq++, type, unix_ms })
    to.fixed(body, body.length)
    to.int(crc32(to.whole(at)), 4)
  }
  to.fixed(new Uint8Array(TRAILER_BYTES), TRAILER_BYTES)
  return to.whole()
}

/** Salts and signs an encoded group behind `from`; returns the point after it and its signature. */
export function signGroup(
  group: Uint8Array,
  from: ChainPoint,
  sign: (point: ChainPoint, root: Uint8Array) => Uint8Array,
): { point: ChainPoint; signature: Uint8Array } {
  randomFillSync(group, GROUP_SALT_AT, 16)
  const { bytes, records, root } = GROUP.read(new ByteReader(group))
  const point = { seq: from.seq + records, head: headAfter(from.head, group.subarray(0, bytes)) }
  const signature = sign(point, root)
  group.set(signature, bytes)
  return { point, signature }
}

/**
 * Returns the seq of the first invalid record of the group at `at`, or 0. The record CRCs detect memory corruption between
 * encoding and encryption, which authentication cannot.
 */
function firstBadRecord(bytes: Uint8Array, at: number, seq_first: number): number {
  const end = at + u32At(bytes, at + BYTES_AT)
  const seq_end = seq_first + u32At(bytes, at + RECORDS_AT)
  let next = at + GROUP_HEADER_BYTES
  for (let seq = seq_first; seq < seq_end; seq++) {
    const body_at = next + RECORD_HEADER_BYTES
    if (body_at + CRC_BYTES > end) return seq
    const crc_at = body_at + u32At(bytes, next + BODY_BYTES_AT)
    if (crc_at + CRC_BYTES > end || uintAt(bytes, next + SEQ_AT) !== seq) return seq
    if (u16At(bytes, next + RESERVED_AT) !== 0) return seq
    if (!Number.isSafeInteger(uintAt(bytes, next + UNIX_MS_AT))) return seq
    if (crc32(bytes.subarray(next, crc_at)) !== u32At(bytes, crc_at)) return seq
    next = crc_at + CRC_BYTES
  }
  return next === end ? 0 : seq_end
}

/** Appends to `into` the records with seq >= from_seq of verified groups; bodies are views of `bytes`. */
export function readRecords(bytes: Uint8Array, from_seq: number, into: JournalRecord[]): void {
  for (let at = 0; at < bytes.length; at += TRAILER_BYTES) {
    let left = u32At(bytes, at + RECORDS_AT)
    for (at += GROUP_HEADER_BYTES; left > 0; left--) {
      const body_at = at + RECORD_HEADER_BYTES
      const crc_at = body_at + u32At(bytes, at + BODY_BYTES_AT)
      const seq = uintAt(bytes, at + SEQ_AT)
      if (seq >= from_seq) {
        const body = bytes.subarray(body_at, crc_at)
        into.push({ seq, type: u16At(bytes, at + TYPE_AT), unix_ms: uintAt(bytes, at + UNIX_MS_AT), body })
      }
      at = crc_at + CRC_BYTES
    }
  }
}

/** The groups of verified bytes, each with its signature. */
export function splitGroups(bytes: Uint8Array): Uint8Array[] {
  const groups: Uint8Array[] = []
  for (let at = 0; at < bytes.length; ) {
    const end = at + u32At(bytes, at + BYTES_AT) + TRAILER_BYTES
    groups.push(bytes.subarray(at, end))
    at = end
  }
  return groups
}

/** The point after a whole group that follows `from`. */
export function pointAfter({ seq, head }: ChainPoint, group: Uint8Array): ChainPoint {
  const hashed = group.subarray(0, group.length - TRAILER_BYTES)
  return { seq: seq + u32At(group, RECORDS_AT), head: headAfter(head, hashed) }
}

/** The groups of verified bytes that begin behind `start`, each with the point after it; bodies are views of `bytes`. */
export function readGroups(bytes: Uint8Array, start: ChainPoint): StoredGroup[] {
  const found: StoredGroup[] = []
  let point = start
  for (let at = 0; at < bytes.length; ) {
    const { bytes: length, records: count, root } = GROUP.read(new ByteReader(bytes, at))
    const end = at + length
    const records: JournalRecord[] = []
    readRecords(bytes.subarray(at, end + TRAILER_BYTES), 0, records)
    point = { seq: point.seq + count, head: headAfter(point.head, bytes.subarray(at, end)) }
    at = end + TRAILER_BYTES
    found.push({ ...point, root, signature: bytes.slice(end, at), records })
  }
  return found
}

/**
 * The plaintext before the groups of one disk write: magic u32, CRC-32 of these fields, the fields, the GCM tag. The CRC
 * distinguishes a damaged header (JournalDamaged) from a valid header of an unfinished frame (a torn write).
 */
const FRAME = struct({
  /** Its number in the segment. */
  frame: u32,
  plain_bytes: u32,
  seq_first: uint,
  records: u32,
  groups: u32,
  reserved: zeros(16),
})
const MAGIC = 0x324a4154
const FIELDS_AT = 8
const TAG_AT = FIELDS_AT + FRAME.size!
export const FRAME_HEADER_BYTES = TAG_AT + 16

export type FrameHeader = ValueOf<typeof FRAME>

/** Rounded up to sectors: no write touches a durable sector, and padding is encrypted, so no written sector is zero. */
export function frameBytes(plain_bytes: number): number {
  return Math.ceil((FRAME_HEADER_BYTES + plain_bytes) / SECTOR_BYTES) * SECTOR_BYTES
}

export function encodeFrameHeader(into: Uint8Array, header: FrameHeader): void {
  const fields = FRAME.encode(header)
  const to = new ByteWriter(TAG_AT)
  to.int(MAGIC, 4)
  to.int(crc32(fields), 4)
  to.fixed(fields, fields.length)
  into.set(to.whole())
}

/** The header at `at`; undefined for a wrong magic, CRC or field. */
export function decodeFrameHeader(segment: Uint8Array, at: number): FrameHeader | undefined {
  if (at + FRAME_HEADER_BYTES > segment.length) return undefined
  // Every sector of a segment is looked at: a sector without the magic costs no more than this comparison.
  if (u32At(segment, at) !== MAGIC) return undefined
  const fields_at = at + FIELDS_AT
  if (u32At(segment, at + 4) !== crc32(segment.subarray(fields_at, at + TAG_AT))) return undefined
  return tryDecode(() => FRAME.read(new ByteReader(segment, fields_at)))
}

const NONCE = struct({ number: u32, reserved: zeros(8) })
/** The GCM nonce of a part of a file. Each file has its own key and uses each number once. */
export const nonceOf = (number: number): Uint8Array<ArrayBuffer> => NONCE.encode({ number })

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
  cipher.setAAD(concatBytes(into.subarray(0, TAG_AT), head))
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
  decipher.setAAD(concatBytes(sealed.subarray(0, TAG_AT), head))
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

function headAfter(head: Uint8Array, group: Uint8Array): Uint8Array {
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
  let point: ChainPoint = from
  let at = 0
  for (let i = 0; i < header.groups; i++) {
    if (at + GROUP_HEADER_BYTES > plain.length) return point.seq + 1
    const bytes = u32At(plain, at + BYTES_AT)
    const end = at + bytes
    if (end + TRAILER_BYTES > plain.length || bytes < GROUP_HEADER_BYTES) return point.seq + 1
    const bad = firstBadRecord(plain, at, point.seq + 1)
    if (bad !== 0) return bad
    const seq = point.seq + u32At(plain, at + RECORDS_AT)
    point = { seq, head: headAfter(point.head, plain.subarray(at, end)) }
    group_ends?.(point)
    at = end + TRAILER_BYTES
  }
  return at === plain.length && point.seq === from.seq + header.records ? point : point.seq + 1
}
