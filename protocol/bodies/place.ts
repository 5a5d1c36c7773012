/** Encodes the place body and hashes the anchors that its signature binds (protocol.md "Canonical signed bodies"). */
import { utf8 } from '../bytes'
import { sha256 } from '../sha256'
import type { OrderType, Side } from '../wire/trading'
import { BodyError, BodyReader, BodyWriter } from './body_layout'

const PLACE_BYTES = 224
const PLACE_DOMAIN = 'tacit/place/v1'
const ANCHORS_DOMAIN = utf8('tacit/anchors/v1')
const SIDES: readonly Side[] = ['buy', 'sell']
const TYPES: readonly OrderType[] = ['limit', 'ioc', 'fok']

type PlaceBody = {
  venue: Uint8Array
  /** 16 bytes, client-chosen, non-zero, never reusable. */
  order_id: Uint8Array
  trading_key: Uint8Array
  symbol: string
  side: Side
  type: OrderType
  /** Base units, a multiple of lot_size. */
  amount: bigint
  /** Quote units per whole base token, a multiple of tick_size. */
  price_limit: bigint
  /** Base units; 0 = any. */
  min_fill: bigint
  expiry_slot: bigint
  nonce: bigint
  collateral_commitment: Uint8Array
  anchor_pool_hash: Uint8Array
}

export function encodePlace(body: PlaceBody): Uint8Array {
  return new BodyWriter(PLACE_BYTES)
    .domain(PLACE_DOMAIN)
    .bytes(body.venue, 32)
    .bytes(body.order_id, 16)
    .bytes(body.trading_key, 32)
    .ascii(body.symbol, 16)
    .byte(SIDES.indexOf(body.side))
    .byte(TYPES.indexOf(body.type))
    .zeros(6)
    .u64(body.amount)
    .u64(body.price_limit)
    .u64(body.min_fill)
    .u64(body.expiry_slot)
    .u64(body.nonce)
    .bytes(body.collateral_commitment, 32)
    .bytes(body.anchor_pool_hash, 32)
    .done()
}

/** @throws BodyError unless the bytes are the canonical encoding of a body. */
export function decodePlace(bytes: Uint8Array): PlaceBody {
  const reader = new BodyReader(bytes, PLACE_BYTES)
  reader.domain(PLACE_DOMAIN)
  const head = {
    venue: reader.bytes(32),
    order_id: reader.bytes(16),
    trading_key: reader.bytes(32),
    symbol: reader.ascii(16),
  }
  const side = SIDES[reader.byte()]
  const type = TYPES[reader.byte()]
  if (side === undefined || type === undefined) throw new BodyError('side or type is not defined')
  reader.zeros(6)
  return {
    ...head,
    side,
    type,
    amount: reader.u64(),
    price_limit: reader.u64(),
    min_fill: reader.u64(),
    expiry_slot: reader.u64(),
    nonce: reader.u64(),
    collateral_commitment: reader.bytes(32),
    anchor_pool_hash: reader.bytes(32),
  }
}

/** SHA-256("tacit/anchors/v1" ‖ anchors in order). Fill j uses anchor `j mod count`. */
export function anchorPoolHash(anchors: Uint8Array[]): Uint8Array {
  return sha256(ANCHORS_DOMAIN, ...anchors)
}
