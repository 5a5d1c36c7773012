/** Encodes the first sector of a segment file: its number, its chain point and the salt of its keys. */
import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto'
import { utf8 } from '../../protocol/bytes'
import { constant, fixed, struct, tryDecode, uint, type ValueOf, zeros } from '../../protocol/codec'

/** A disk writes a sector atomically: whole or not at all. */
export const SECTOR_BYTES = 512

/**
 * A segment is written by one process only, under keys of a random salt. After a torn tail the next process continues
 * in a new segment, hence under new keys, so no nonce is used twice. All its groups are signed by one author, whose
 * certificate is stored here: a tail can be judged without the state, also when the author's boot record is retired.
 *
 * The header states where the previous segment ends. Publishing it (one rename) therefore truncates a torn tail: bytes
 * behind that end are ignored even where they still exist.
 */
const SIGNED = struct({
  magic: constant(utf8('TACITJ03')),
  number: uint,
  seq: uint,
  /** Valid frames of the previous segment, and the offset after the last of them; 0 in the first segment. */
  previous_frames: uint,
  previous_end: uint,
  head: fixed(32),
  salt: fixed(32),
  author: struct({ epoch: uint, statement_key: fixed(32), certificate: fixed(64) }),
})
export type SegmentHeader = ValueOf<typeof SIGNED>
/** `tag` is an HMAC-SHA-256. */
const SECTOR = struct({
  signed: fixed(SIGNED.size!),
  tag: fixed(32),
  reserved: zeros(SECTOR_BYTES - SIGNED.size! - 32),
})

/** Keys of one segment: AES-256-GCM for its frames, HMAC-SHA-256 for its header (HKDF, RFC 5869). */
export type SegmentKeys = { frame: Uint8Array; header: Uint8Array }

export function segmentKeys(key: Uint8Array, number: number, salt: Uint8Array): SegmentKeys {
  const derive = (purpose: string) =>
    new Uint8Array(hkdfSync('sha256', key, salt, `tacit/journal/v2/${purpose}/${number}`, 32))
  return { frame: derive('frame'), header: derive('header') }
}

export function encodeSegmentHeader(header: SegmentHeader, keys: SegmentKeys): Uint8Array {
  const signed = SIGNED.encode(header)
  return SECTOR.encode({ signed, tag: tagOf(signed, keys) })
}

/** Decodes a header; undefined when it does not authenticate: damaged, or written under another key. */
export function decodeSegmentHeader(
  sector: Uint8Array,
  number: number,
  key: Uint8Array,
): { header: SegmentHeader; keys: SegmentKeys } | undefined {
  return tryDecode(() => {
    const { signed, tag } = SECTOR.decode(sector.subarray(0, SECTOR_BYTES))
    const header = SIGNED.decode(signed)
    const keys = segmentKeys(key, number, header.salt)
    if (!timingSafeEqual(tagOf(signed, keys), tag) || header.number !== number) return undefined
    return { header, keys }
  })
}

function tagOf(signed: Uint8Array, keys: SegmentKeys): Uint8Array {
  return createHmac('sha256', keys.header).update(signed).digest()
}
