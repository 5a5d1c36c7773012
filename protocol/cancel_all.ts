/** The cancel-all body, 104 bytes (protocol.md "Canonical signed bodies"). */
import { BodyReader, BodyWriter } from './body_layout'

export const CANCEL_ALL_BYTES = 104
const DOMAIN = 'tacit/cancelall1'

export type CancelAllBody = {
  venue: Uint8Array
  /** Empty for every instrument. */
  symbol: string
  trading_key: Uint8Array
  cancel_nonce: bigint
}

export function encodeCancelAll(body: CancelAllBody): Uint8Array {
  return new BodyWriter(CANCEL_ALL_BYTES)
    .domain(DOMAIN)
    .bytes(body.venue, 32)
    .ascii(body.symbol, 16)
    .bytes(body.trading_key, 32)
    .u64(body.cancel_nonce)
    .done()
}

/** @throws BodyError unless the bytes are the canonical encoding of a body. */
export function decodeCancelAll(bytes: Uint8Array): CancelAllBody {
  const reader = new BodyReader(bytes, CANCEL_ALL_BYTES)
  reader.domain(DOMAIN)
  return {
    venue: reader.bytes(32),
    symbol: reader.ascii(16),
    trading_key: reader.bytes(32),
    cancel_nonce: reader.u64(),
  }
}
