/** Encodes the place body and hashes the anchors that its signature binds (protocol.md "Canonical signed bodies"). */
import { equalBytes, isZero, utf8 } from '../bytes'
import { ascii, domain, fixed, struct, u64, word, zeros } from '../codec'
import { isFieldElement } from '../field'
import { ANCHORS_MAX } from '../limits'
import { sha256 } from '../sha256'
import type { OrderType, Side } from '../wire/trading'

const SIDES: readonly Side[] = ['buy', 'sell']
const TYPES: readonly OrderType[] = ['limit', 'ioc', 'fok']
const ANCHORS_DOMAIN = utf8('tacit/anchors/v1')

/** 224 bytes. */
export const { encode: encodePlace, decode: decodePlace } = struct({
  domain: domain('tacit/place/v1'),
  venue: fixed(32),
  /** 16 bytes, client-chosen, non-zero, never reusable. */
  order_id: fixed(16),
  trading_key: fixed(32),
  symbol: ascii(16),
  side: word(SIDES),
  type: word(TYPES),
  reserved: zeros(6),
  /** Base units, a multiple of lot_size. */
  amount: u64,
  /** Quote units per whole base token, a multiple of tick_size. */
  price_limit: u64,
  /** Base units; 0 = any. */
  min_fill: u64,
  expiry_slot: u64,
  nonce: u64,
  collateral_commitment: fixed(32),
  anchor_pool_hash: fixed(32),
})

/** True for 1 to 16 distinct, non-zero field elements (protocol.md "Continuation anchors"). */
export function areAnchors(anchors: Uint8Array[]): boolean {
  if (anchors.length < 1 || anchors.length > ANCHORS_MAX) return false
  for (let at = 0; at < anchors.length; at++) {
    const anchor = anchors[at]!
    if (!isFieldElement(anchor) || isZero(anchor)) return false
    for (let before = 0; before < at; before++) if (equalBytes(anchors[before]!, anchor)) return false
  }
  return true
}

/** SHA-256("tacit/anchors/v1" ‖ anchors in order). Fill j uses anchor `j mod count`. */
export function anchorPoolHash(anchors: Uint8Array[]): Uint8Array {
  return sha256(ANCHORS_DOMAIN, ...anchors)
}
