/**
 * Describes the statements that others sign for the venue: calls to the operator's listener, and the price that a source
 * publishes.
 */
import { toHex, utf8 } from '../bytes'
import { ascii, domain, fixed, struct, u64, uint, type ValueOf } from '../codec'
import { sha256 } from '../sha256'
import { sign } from '../sign'

const SIGNED = struct({
  domain: domain('tacit/operator/1'),
  venue: fixed(32),
  nonce: u64,
  expiry_unix_s: uint,
  method: ascii(8),
  target_sha256: fixed(32),
  body_sha256: fixed(32),
})
/** A scrape token's signed bytes: it reads `/metrics` of this venue until it expires, and does nothing else. */
const SCRAPE = struct({ domain: domain('tacit/scrape/001'), venue: fixed(32), expiry_unix_s: uint })

export const OPERATOR_HEADERS = {
  nonce: 'x-tacit-operator-nonce',
  expiry: 'x-tacit-operator-expiry',
  signature: 'x-tacit-operator-signature',
} as const

export type OperatorRequest = {
  /** 32 bytes: the call is void at every other venue. */
  venue: Uint8Array
  /** Must rise from call to call and begin above the venue's start in unix milliseconds: use the present one. */
  nonce: bigint
  expiry_unix_s: number
  /** `GET` or `POST`. */
  method: string
  /** Path with query, as in the request line. */
  target: string
  /** Empty for a call without body. */
  body: Uint8Array
}

export function operatorRequestBytes(request: OperatorRequest): Uint8Array {
  const { target, body, ...fields } = request
  return SIGNED.encode({ ...fields, target_sha256: sha256(utf8(target)), body_sha256: sha256(body) })
}

export const scrapeTokenBytes: (token: { venue: Uint8Array; expiry_unix_s: number }) => Uint8Array =
  SCRAPE.encode

/** `EXPIRY.SIGNATURE`: Unix seconds in decimal, and 64 bytes in lowercase hex. Carried as a bearer token. */
export function scrapeToken(venue: Uint8Array, expiry_unix_s: number, operator_seed: Uint8Array): string {
  return `${expiry_unix_s}.${toHex(sign(operator_seed, scrapeTokenBytes({ venue, expiry_unix_s })))}`
}

/** The three headers of a call, signed with the 32-byte operator seed. */
export function operatorHeaders(request: OperatorRequest, operator_seed: Uint8Array): Record<string, string> {
  return {
    [OPERATOR_HEADERS.nonce]: String(request.nonce),
    [OPERATOR_HEADERS.expiry]: String(request.expiry_unix_s),
    [OPERATOR_HEADERS.signature]: toHex(sign(operator_seed, operatorRequestBytes(request))),
  }
}

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
