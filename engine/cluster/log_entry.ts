/** Seals the groups of one append for the replicated log, bound to their place in the hash chain (cluster.md "Log"). */

import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'
import { concatBytes, utf8 } from '../../protocol/bytes'
import { blob, constant, fixed, struct, tryDecode, u32, uint } from '../../protocol/codec'
import type { ChainPoint } from '../../protocol/units'
import type { SignedFrame } from '../journal/contract'
import { advance, splitGroups } from '../journal/frame'
import { LIMITS } from '../limits'

/** In clear. The salt gives each entry its own key: no nonce is used twice, even if two leaders write at one place. */
const HEADER = struct({ magic: constant(utf8('TACITL01')), salt: fixed(32) })
const HEADER_BYTES = HEADER.size!
const BODY = struct({
  epoch: uint,
  statement_key: fixed(32),
  certificate: fixed(64),
  group_count: u32,
  to_seq: uint,
  groups: blob,
  /** Zeros up to a multiple of LIMITS.log_entry_step_bytes: the exact size would show which commands the entry holds. */
  padding: blob,
})
/** Of an entry without groups and padding. */
const BODY_BYTES = BODY.encode({
  epoch: 0,
  statement_key: new Uint8Array(32),
  certificate: new Uint8Array(64),
  group_count: 0,
  to_seq: 0,
  groups: new Uint8Array(0),
  padding: new Uint8Array(0),
}).length
const TAG_BYTES = 16
const NONCE = new Uint8Array(12)

export type EntryKey = { key: Uint8Array; venue: Uint8Array }

export function sealEntry({ key, venue }: EntryKey, entry: SignedFrame): Uint8Array {
  const header = HEADER.encode({ salt: new Uint8Array(randomBytes(32)) })
  const { author, from, to } = entry
  const groups = concatBytes(...entry.groups)
  const fields = { ...author, group_count: entry.groups.length, to_seq: to.seq, groups }
  const step = LIMITS.log_entry_step_bytes
  const padding = new Uint8Array(step - 1 - ((BODY_BYTES + groups.length - 1) % step))
  const body = BODY.encode({ ...fields, padding })
  const cipher = createCipheriv('aes-256-gcm', entryKey(key, header), NONCE)
  cipher.setAAD(placeOf(venue, header, from))
  return concatBytes(header, cipher.update(body), cipher.final(), cipher.getAuthTag())
}

/** Undefined when the bytes are not an entry that this venue wrote behind `from`. */
export function openEntry(
  { key, venue }: EntryKey,
  sealed: Uint8Array,
  from: ChainPoint,
): SignedFrame | undefined {
  return tryDecode(() => {
    const header = sealed.slice(0, HEADER_BYTES)
    HEADER.decode(header)
    const tag_at = sealed.length - TAG_BYTES
    if (tag_at < HEADER_BYTES) return undefined
    const decipher = createDecipheriv('aes-256-gcm', entryKey(key, header), NONCE)
    decipher.setAAD(placeOf(venue, header, from))
    decipher.setAuthTag(sealed.subarray(tag_at))
    const plain = new Uint8Array(decipher.update(sealed.subarray(HEADER_BYTES, tag_at)))
    if (!isAuthentic(decipher)) return undefined
    const { epoch, statement_key, certificate, group_count, to_seq, groups } = BODY.decode(plain)
    const counts = { frame: 0, plain_bytes: groups.length, seq_first: from.seq + 1, groups: group_count }
    const to = advance(groups, { ...counts, records: to_seq - from.seq }, from)
    if (typeof to === 'number') return undefined
    return { author: { epoch, statement_key, certificate }, groups: splitGroups(groups), from, to }
  })
}

const entryKey = (key: Uint8Array, header: Uint8Array) =>
  new Uint8Array(hkdfSync('sha256', key, header.subarray(8), 'tacit/log/v1/entry', 32))

const PLACE = struct({ seq: uint, head: fixed(32) })
function placeOf(venue: Uint8Array, header: Uint8Array, { seq, head }: ChainPoint): Uint8Array {
  return concatBytes(venue, header, PLACE.encode({ seq, head }))
}

function isAuthentic(decipher: { final(): Uint8Array }): boolean {
  try {
    decipher.final()
    return true
  } catch {
    return false
  }
}
