/** Describes the cancel, cancel-all and dead-man timer bodies (protocol.md "Canonical signed bodies"). */
import { ascii, domain, fixed, struct, u64 } from '../codec'

export const {
  encode: encodeCancel,
  decode: decodeCancel,
  shape: CANCEL_SHAPE,
} = struct({
  domain: domain('tacit/cancel/v1'),
  venue: fixed(32),
  order_id: fixed(16),
  trading_key: fixed(32),
  cancel_nonce: u64,
})

export const {
  encode: encodeCancelAll,
  decode: decodeCancelAll,
  shape: CANCEL_ALL_SHAPE,
} = struct({
  domain: domain('tacit/cancelall1'),
  venue: fixed(32),
  /** Empty for every instrument. */
  symbol: ascii(16),
  trading_key: fixed(32),
  cancel_nonce: u64,
})

export const {
  encode: encodeDeadMan,
  decode: decodeDeadMan,
  shape: DEAD_MAN_SHAPE,
} = struct({
  domain: domain('tacit/deadman/v1'),
  venue: fixed(32),
  trading_key: fixed(32),
  cancel_nonce: u64,
  /** 0 disarms. */
  timeout_slots: u64,
})
