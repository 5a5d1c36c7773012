/** Encodes the first sector of a segment file: its number, its chain point and the salt of its keys. */
import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto'
import { isZeroRange } from '../../protocol/bytes'
import { getSafe, setSafe } from '../memory/safe_integers'

/** A disk writes a sector atomically: whole or not at all. */
export const SECTOR_BYTES = 512
const MAGIC = new TextEncoder().encode('TACITJ01')
const SIGNED_BYTES = 112
const TAG_BYTES = 32

/** State of the chain between two frames. */
export type ChainPoint = {
  /** seq of the last record so far, 0 for none. */
  seq: number
  head: Uint8Array
  epoch: number
}

/**
 * A segment is written by one process only, under keys of a random salt. After a torn tail the next process continues
 * in a new segment, hence under new keys, so no nonce is used twice.
 *
 * The header states where the previous segment ends. Publishing it (one rename) therefore truncates a torn tail: bytes
 * behind that end are ignored even where they still exist.
 */
export type SegmentHeader = ChainPoint & {
  number: number
  salt: Uint8Array
  /** Valid frames of the previous segment, and the offset after the last of them; 0 in the first segment. */
  previous_frames: number
  previous_end: number
}

/** Keys of one segment: AES-256-GCM for its frames, HMAC-SHA-256 for its header (HKDF, RFC 5869). */
export type SegmentKeys = { frame: Uint8Array; header: Uint8Array }

export function segmentKeys(key: Uint8Array, number: number, salt: Uint8Array): SegmentKeys {
  const derive = (purpose: string) =>
    new Uint8Array(hkdfSync('sha256', key, salt, `tacit/journal/v1/${purpose}/${number}`, 32))
  return { frame: derive('frame'), header: derive('header') }
}

/** One sector: magic 8, number 8, seq 8, epoch 8, previous_frames 8, previous_end 8, head 32, salt 32, HMAC 32, zeros. */
export function encodeSegmentHeader(header: SegmentHeader, keys: SegmentKeys): Uint8Array {
  const sector = new Uint8Array(SECTOR_BYTES)
  const view = new DataView(sector.buffer)
  sector.set(MAGIC, 0)
  setSafe(view, 8, header.number)
  setSafe(view, 16, header.seq)
  setSafe(view, 24, header.epoch)
  setSafe(view, 32, header.previous_frames)
  setSafe(view, 40, header.previous_end)
  sector.set(header.head, 48)
  sector.set(header.salt, 80)
  sector.set(tagOf(sector, keys), SIGNED_BYTES)
  return sector
}

/** Decodes a header; undefined when it does not authenticate: damaged, or written under another key. */
export function decodeSegmentHeader(
  sector: Uint8Array,
  number: number,
  key: Uint8Array,
): { header: SegmentHeader; keys: SegmentKeys } | undefined {
  if (sector.length < SECTOR_BYTES || !MAGIC.every((byte, i) => sector[i] === byte)) return undefined
  const salt = sector.slice(80, 112)
  const keys = segmentKeys(key, number, salt)
  if (!timingSafeEqual(tagOf(sector, keys), sector.subarray(SIGNED_BYTES, SIGNED_BYTES + TAG_BYTES)))
    return undefined
  if (!isZeroRange(sector, SIGNED_BYTES + TAG_BYTES, SECTOR_BYTES)) return undefined
  const view = new DataView(sector.buffer, sector.byteOffset, SECTOR_BYTES)
  if (getSafe(view, 8) !== number) return undefined
  const header = {
    number,
    seq: getSafe(view, 16),
    epoch: getSafe(view, 24),
    previous_frames: getSafe(view, 32),
    previous_end: getSafe(view, 40),
    head: sector.slice(48, 80),
    salt,
  }
  return { header, keys }
}

function tagOf(sector: Uint8Array, keys: SegmentKeys): Uint8Array {
  return createHmac('sha256', keys.header).update(sector.subarray(0, SIGNED_BYTES)).digest()
}
