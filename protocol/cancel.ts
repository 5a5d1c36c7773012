/** The cancel body, 104 bytes (protocol.md "Canonical signed bodies"). */
import { BodyReader, BodyWriter } from './body_layout'

export const CANCEL_BYTES = 104
const DOMAIN = 'tacit/cancel/v1'

export type CancelBody = {
  venue: Uint8Array
  order_id: Uint8Array
  trading_key: Uint8Array
  cancel_nonce: bigint
}

export function encodeCancel(body: CancelBody): Uint8Array {
  return new BodyWriter(CANCEL_BYTES)
    .domain(DOMAIN)
    .bytes(body.venue, 32)
    .bytes(body.order_id, 16)
    .bytes(body.trading_key, 32)
    .u64(body.cancel_nonce)
    .done()
}

/** @throws BodyError unless the bytes are the canonical encoding of a body. */
export function decodeCancel(bytes: Uint8Array): CancelBody {
  const reader = new BodyReader(bytes, CANCEL_BYTES)
  reader.domain(DOMAIN)
  return {
    venue: reader.bytes(32),
    order_id: reader.bytes(16),
    trading_key: reader.bytes(32),
    cancel_nonce: reader.u64(),
  }
}
