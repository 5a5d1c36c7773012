/**
 * Signed calls to the operator's listener. Each call carries three headers: `x-tacit-operator-nonce` (u64, decimal),
 * `x-tacit-operator-expiry` (unix seconds, decimal) and `x-tacit-operator-signature` (64 bytes, lowercase hex), the
 * Ed25519 signature by the operator key over 136 bytes:
 * | at | bytes | field |
 * |---|---|---|
 * | 0 | 16 | `tacit/operator/1` |
 * | 16 | 32 | venue |
 * | 48 | 8 | nonce, u64 little-endian |
 * | 56 | 8 | expiry_unix_s, u64 little-endian |
 * | 64 | 8 | method, upper case ASCII, zero padded |
 * | 72 | 32 | SHA-256 of the request target (path with query) |
 * | 104 | 32 | SHA-256 of the body |
 */
import { concatBytes, paddedAscii, toHex, u64Le, utf8 } from '../bytes'
import { sha256 } from '../sha256'
import { sign } from '../sign'

export const OPERATOR_REQUEST_BYTES = 136
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
  return concatBytes(
    paddedAscii('tacit/operator/1', 16),
    request.venue,
    u64Le(request.nonce),
    u64Le(request.expiry_unix_s),
    paddedAscii(request.method, 8),
    sha256(utf8(request.target)),
    sha256(request.body),
  )
}

/** The three headers of a call, signed with the 32-byte operator seed. */
export function operatorHeaders(request: OperatorRequest, operator_seed: Uint8Array): Record<string, string> {
  return {
    [OPERATOR_HEADERS.nonce]: String(request.nonce),
    [OPERATOR_HEADERS.expiry]: String(request.expiry_unix_s),
    [OPERATOR_HEADERS.signature]: toHex(sign(operator_seed, operatorRequestBytes(request))),
  }
}
