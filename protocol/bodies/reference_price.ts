/**
 * The price a source publishes for an instrument's reference, 96 bytes signed by the source's Ed25519 key:
 * | at | bytes | field |
 * |---|---|---|
 * | 0 | 16 | `tacit/refprice1` |
 * | 16 | 32 | venue |
 * | 48 | 16 | symbol, zero padded |
 * | 64 | 8 | price in quote units per whole base token, u64 little-endian |
 * | 72 | 8 | publish_unix_ms, u64 little-endian |
 * | 80 | 16 | source, its name in the venue's settings, zero padded |
 */

import { toHex } from '../bytes'
import { sign } from '../sign'
import { BodyReader, BodyWriter } from './body_layout'

const REFERENCE_PRICE_BYTES = 96
const DOMAIN = 'tacit/refprice1'

type ReferencePriceBody = {
  venue: Uint8Array
  symbol: string
  price: bigint
  publish_unix_ms: bigint
  source: string
}
/** The body of `POST /references` on the operator listener. */
export type SignedReferencePrice = {
  symbol: string
  /** Quote units per whole base token, decimal. */
  price: string
  publish_unix_ms: number
  source: string
  /** 64 bytes, lowercase hex. */
  signature: string
}

/** 1 to 16 characters of `a-z 0-9 -`. */
export function isSourceName(text: string): boolean {
  return /^[a-z0-9-]{1,16}$/.test(text)
}

export function encodeReferencePrice(body: ReferencePriceBody): Uint8Array {
  return new BodyWriter(REFERENCE_PRICE_BYTES)
    .domain(DOMAIN)
    .bytes(body.venue, 32)
    .ascii(body.symbol, 16)
    .u64(body.price)
    .u64(body.publish_unix_ms)
    .ascii(body.source, 16)
    .done()
}

/** @throws BodyError unless the bytes are the canonical encoding of a body. */
export function decodeReferencePrice(bytes: Uint8Array): ReferencePriceBody {
  const reader = new BodyReader(bytes, REFERENCE_PRICE_BYTES)
  reader.domain(DOMAIN)
  return {
    venue: reader.bytes(32),
    symbol: reader.ascii(16),
    price: reader.u64(),
    publish_unix_ms: reader.u64(),
    source: reader.ascii(16),
  }
}

/** Signs a price for publication. `source_seed` is the 32-byte seed of its key. */
export function signReferencePrice(
  body: Omit<ReferencePriceBody, 'publish_unix_ms'> & { publish_unix_ms: number },
  source_seed: Uint8Array,
): SignedReferencePrice {
  const { symbol, price, publish_unix_ms, source } = body
  const bytes = encodeReferencePrice({ ...body, publish_unix_ms: BigInt(publish_unix_ms) })
  return {
    symbol,
    price: price.toString(),
    publish_unix_ms,
    source,
    signature: toHex(sign(source_seed, bytes)),
  }
}
