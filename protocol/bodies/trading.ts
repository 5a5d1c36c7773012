/** Describes the bodies that a trading key signs (protocol.md "Canonical signed bodies"): place, cancels, timer, reshape, withdraw. */

import { CodecError } from '../byte_stream'
import { compareBytes, isZero, utf8 } from '../bytes'
import {
  array,
  ascii,
  type Codec,
  domain,
  fixed,
  mapped,
  struct,
  u64,
  type ValueOf,
  word,
  zeros,
} from '../codec'
import { RESHAPE_NOTES_MAX } from '../limits'
import { sha256 } from '../sha256'
import type { OrderType, Side } from '../wire/trading'

const SIDES: readonly Side[] = ['buy', 'sell']
const TYPES: readonly OrderType[] = ['limit', 'ioc', 'fok']
const ANCHORS_DOMAIN = utf8('tacit/anchors/v1')

/** 224 bytes. */
export const PLACE_BODY = struct({
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

export const CANCEL_BODY = struct({
  domain: domain('tacit/cancel/v1'),
  venue: fixed(32),
  order_id: fixed(16),
  trading_key: fixed(32),
  cancel_nonce: u64,
})

export const CANCEL_ALL_BODY = struct({
  domain: domain('tacit/cancelall1'),
  venue: fixed(32),
  /** Empty for every instrument. */
  symbol: ascii(16),
  trading_key: fixed(32),
  cancel_nonce: u64,
})

export const DEAD_MAN_BODY = struct({
  domain: domain('tacit/deadman/v1'),
  venue: fixed(32),
  trading_key: fixed(32),
  cancel_nonce: u64,
  /** 0 disarms. */
  timeout_slots: u64,
})

const RESHAPE = struct({
  domain: domain('tacit/reshape/v1'),
  venue: fixed(32),
  trading_key: fixed(32),
  /** 1 to 4 commitments, strictly ascending. */
  inputs: slots(fixed(32), new Uint8Array(32), isZero),
  /** 1 to 4 non-zero output amounts; their sum equals the inputs'. */
  amounts: slots(u64, 0n, (amount) => amount === 0n),
  anchor: fixed(32),
  nonce: u64,
  expiry_slot: u64,
})
type ReshapeBody = ValueOf<typeof RESHAPE>

/** @throws RangeError, CodecError when the shape is not a merge or split */
export const RESHAPE_BODY = mapped(
  RESHAPE,
  (body) => {
    if (!isReshapeShape(body)) throw new CodecError('not a merge or split')
    return body
  },
  (body: ReshapeBody) => {
    if (!isReshapeShape(body)) throw new RangeError('not a merge or split')
    return body
  },
)

/** Up to 4 values; the slots behind them are zero. */
function slots<T>(inner: Codec<T>, zero: T, isUnused: (value: T) => boolean): Codec<T[]> {
  return mapped(
    array(inner, RESHAPE_NOTES_MAX),
    (values) => {
      const used = values.filter((value) => !isUnused(value))
      if (!values.slice(used.length).every(isUnused)) throw new CodecError('an unused slot is not zero')
      return used
    },
    (values) => [...values, ...new Array<T>(RESHAPE_NOTES_MAX - values.length).fill(zero)],
  )
}

/** True for the reshapes the layout can express: 1 to 4 ascending inputs, 1 to 4 non-zero outputs, not 1 to 1. */
function isReshapeShape({ inputs, amounts }: ReshapeBody): boolean {
  const counts = [inputs.length, amounts.length]
  if (!counts.every((count) => count >= 1 && count <= RESHAPE_NOTES_MAX)) return false
  if (inputs.length === 1 && amounts.length === 1) return false
  if (inputs.some(isZero) || amounts.some((amount) => amount <= 0n)) return false
  return inputs.every((input, at) => at === 0 || compareBytes(inputs[at - 1]!, input) < 0)
}

export const WITHDRAW_BODY = struct({
  domain: domain('tacit/withdraw1'),
  venue: fixed(32),
  trading_key: fixed(32),
  commitment: fixed(32),
  /** Token account that receives `amount`. */
  destination: fixed(32),
  amount: u64,
  nonce: u64,
  expiry_slot: u64,
  /** Never zero: a refund takes its blinding from it too. */
  change_anchor: fixed(32),
})

/** The id of a withdrawal or reshape: the first 16 bytes of SHA-256 of its body. */
export function bodyId(body: Uint8Array): Uint8Array {
  return sha256(body).slice(0, 16)
}
