/** Describes the price a source publishes for an instrument's reference, signed by the source's Ed25519 key. */
import { toHex } from '../bytes'
import { ascii, domain, fixed, struct, u64, type ValueOf } from '../codec'
import { sign } from '../sign'

const REFERENCE_PRICE = struct({
  domain: domain('tacit/refprice1'),
  venue: fixed(32),
  symbol: ascii(16),
  /** Quote units per whole base token. */
  price: u64,
  publish_unix_ms: u64,
  /** Its name in the venue's settings. */
  source: ascii(16),
})
export const { encode: encodeReferencePrice, decode: decodeReferencePrice } = REFERENCE_PRICE

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

/** Signs a price for publication. `source_seed` is the 32-byte seed of its key. */
export function signReferencePrice(
  body: Omit<ValueOf<typeof REFERENCE_PRICE>, 'publish_unix_ms'> & { publish_unix_ms: number },
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
