/** Encodes the place body and hashes the anchors that its signature binds (protocol.md "Canonical signed bodies"). */
import { utf8 } from '../bytes'
import { ascii, domain, fixed, struct, u64, word, zeros } from '../codec'
import { sha256 } from '../sha256'
import type { OrderType, Side } from '../wire/trading'

const SIDES: readonly Side[] = ['buy', 'sell']
const TYPES: readonly OrderType[] = ['limit', 'ioc', 'fok']
const ANCHORS_DOMAIN = utf8('tacit/anchors/v1')

/** 224 bytes. */
export const {
  encode: encodePlace,
  decode: decodePlace,
  shape: PLACE_SHAPE,
} = struct({
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

/** SHA-256("tacit/anchors/v1" ‖ anchors in order). Fill j uses anchor `j mod count`. */
export function anchorPoolHash(anchors: Uint8Array[]): Uint8Array {
  return sha256(ANCHORS_DOMAIN, ...anchors)
}
