/** Encodes the cancel, cancel-all and dead-man timer bodies (protocol.md "Canonical signed bodies"). */
import { BodyReader, BodyWriter } from './body_layout'

const CANCEL_BYTES = 104
const CANCEL_DOMAIN = 'tacit/cancel/v1'

type CancelBody = {
  venue: Uint8Array
  order_id: Uint8Array
  trading_key: Uint8Array
  cancel_nonce: bigint
}

export function encodeCancel(body: CancelBody): Uint8Array {
  return new BodyWriter(CANCEL_BYTES)
    .domain(CANCEL_DOMAIN)
    .bytes(body.venue, 32)
    .bytes(body.order_id, 16)
    .bytes(body.trading_key, 32)
    .u64(body.cancel_nonce)
    .done()
}

/** @throws BodyError unless the bytes are the canonical encoding of a body. */
export function decodeCancel(bytes: Uint8Array): CancelBody {
  const reader = new BodyReader(bytes, CANCEL_BYTES)
  reader.domain(CANCEL_DOMAIN)
  return {
    venue: reader.bytes(32),
    order_id: reader.bytes(16),
    trading_key: reader.bytes(32),
    cancel_nonce: reader.u64(),
  }
}

const CANCEL_ALL_BYTES = 104
const CANCEL_ALL_DOMAIN = 'tacit/cancelall1'

type CancelAllBody = {
  venue: Uint8Array
  /** Empty for every instrument. */
  symbol: string
  trading_key: Uint8Array
  cancel_nonce: bigint
}

export function encodeCancelAll(body: CancelAllBody): Uint8Array {
  return new BodyWriter(CANCEL_ALL_BYTES)
    .domain(CANCEL_ALL_DOMAIN)
    .bytes(body.venue, 32)
    .ascii(body.symbol, 16)
    .bytes(body.trading_key, 32)
    .u64(body.cancel_nonce)
    .done()
}

/** @throws BodyError unless the bytes are the canonical encoding of a body. */
export function decodeCancelAll(bytes: Uint8Array): CancelAllBody {
  const reader = new BodyReader(bytes, CANCEL_ALL_BYTES)
  reader.domain(CANCEL_ALL_DOMAIN)
  return {
    venue: reader.bytes(32),
    symbol: reader.ascii(16),
    trading_key: reader.bytes(32),
    cancel_nonce: reader.u64(),
  }
}

const DEAD_MAN_BYTES = 96
const DEAD_MAN_DOMAIN = 'tacit/deadman/v1'

type DeadManBody = {
  venue: Uint8Array
  trading_key: Uint8Array
  cancel_nonce: bigint
  /** 0 disarms. */
  timeout_slots: bigint
}

export function encodeDeadMan(body: DeadManBody): Uint8Array {
  return new BodyWriter(DEAD_MAN_BYTES)
    .domain(DEAD_MAN_DOMAIN)
    .bytes(body.venue, 32)
    .bytes(body.trading_key, 32)
    .u64(body.cancel_nonce)
    .u64(body.timeout_slots)
    .done()
}

/** @throws BodyError unless the bytes are the canonical encoding of a body. */
export function decodeDeadMan(bytes: Uint8Array): DeadManBody {
  const reader = new BodyReader(bytes, DEAD_MAN_BYTES)
  reader.domain(DEAD_MAN_DOMAIN)
  return {
    venue: reader.bytes(32),
    trading_key: reader.bytes(32),
    cancel_nonce: reader.u64(),
    timeout_slots: reader.u64(),
  }
}
