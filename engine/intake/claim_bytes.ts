/** Encodes the claims of one message to the signature thread; the buffer is transferred, not copied. */
import type { Claim } from './context'

/** Layout: number of claims u32; per claim: body length u32, key 32, signature 64, body. Little-endian. */
const HEADER_BYTES = 4
const CLAIM_BYTES = 4 + 32 + 64

export function encodeClaims(claims: readonly Claim[]): Uint8Array<ArrayBuffer> {
  let size = HEADER_BYTES
  for (const { body } of claims) size += CLAIM_BYTES + body.length
  const bytes = new Uint8Array(new ArrayBuffer(size))
  const view = new DataView(bytes.buffer)
  view.setUint32(0, claims.length, true)
  let at = HEADER_BYTES
  for (const { body, trading_key, signature } of claims) {
    // A key or signature of another width cannot verify, and neither can the zeros left in its place.
    view.setUint32(at, body.length, true)
    if (trading_key.length === 32 && signature.length === 64) {
      bytes.set(trading_key, at + 4)
      bytes.set(signature, at + 36)
    }
    bytes.set(body, at + CLAIM_BYTES)
    at += CLAIM_BYTES + body.length
  }
  return bytes
}

/** The claims as views into `bytes`. */
export function decodeClaims(bytes: Uint8Array): Claim[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  let at = HEADER_BYTES
  return Array.from({ length: view.getUint32(0, true) }, () => {
    const body_at = at + CLAIM_BYTES
    const end = body_at + view.getUint32(at, true)
    const claim = {
      trading_key: bytes.subarray(at + 4, at + 36),
      signature: bytes.subarray(at + 36, body_at),
      body: bytes.subarray(body_at, end),
    }
    at = end
    return claim
  })
}
