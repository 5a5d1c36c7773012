/** The dead-man timer body, 96 bytes (protocol.md "Canonical signed bodies"). */
import { BodyReader, BodyWriter } from './body_layout'

export const DEAD_MAN_BYTES = 96
const DOMAIN = 'tacit/deadman/v1'

export type DeadManBody = {
  venue: Uint8Array
  trading_key: Uint8Array
  cancel_nonce: bigint
  /** 0 disarms. */
  timeout_slots: bigint
}

export function encodeDeadMan(body: DeadManBody): Uint8Array {
  return new BodyWriter(DEAD_MAN_BYTES)
    .domain(DOMAIN)
    .bytes(body.venue, 32)
    .bytes(body.trading_key, 32)
    .u64(body.cancel_nonce)
    .u64(body.timeout_slots)
    .done()
}

/** @throws BodyError unless the bytes are the canonical encoding of a body. */
export function decodeDeadMan(bytes: Uint8Array): DeadManBody {
  const reader = new BodyReader(bytes, DEAD_MAN_BYTES)
  reader.domain(DOMAIN)
  return {
    venue: reader.bytes(32),
    trading_key: reader.bytes(32),
    cancel_nonce: reader.u64(),
    timeout_slots: reader.u64(),
  }
}
