/** Who signed a quote: checks its signatures from the TD report up to the root certificate it carries. */
import { createPublicKey, type KeyObject, verify, X509Certificate } from 'node:crypto'
import { concatBytes, equalBytes } from '../protocol/bytes'
import type { Quote } from '../protocol/quote'
import { sha256 } from '../protocol/sha256'

/**
 * Raw 64-byte P-256 key of the self-signed root under which every signature of the quote holds; undefined when one does
 * not. Revocation, dates and platform status are the verifying client's business: this tells real hardware from an
 * imitation, not a current platform from an old one.
 */
export function quoteRootKey(quote: Quote): Uint8Array | undefined {
  const [leaf, authority, root] = quote.pck_chain.map((der) => new X509Certificate(der))
  if (leaf === undefined || authority === undefined || root === undefined || quote.pck_chain.length !== 3)
    return undefined
  if (leaf.ca || !authority.ca || !root.ca) return undefined
  const chained =
    leaf.verify(authority.publicKey) && authority.verify(root.publicKey) && root.verify(root.publicKey)
  if (!chained || !leaf.checkIssued(authority) || !authority.checkIssued(root)) return undefined
  if (!verifyRaw(leaf.publicKey, quote.qe_report_bytes, quote.qe_report_signature)) return undefined
  const key_hash = sha256(quote.attestation_key, quote.qe_auth_data)
  if (!equalBytes(quote.qe_report.report_data, concatBytes(key_hash, new Uint8Array(32)))) return undefined
  if (!verifyRaw(keyOfPoint(quote.attestation_key), quote.signed, quote.signature)) return undefined
  return pointOfKey(root.publicKey)
}

/** ECDSA P-256 with SHA-256, signature as r ‖ s. */
function verifyRaw(key: KeyObject, message: Uint8Array, signature: Uint8Array): boolean {
  return verify('sha256', message, { key, dsaEncoding: 'ieee-p1363' }, signature)
}

/** @throws when the point is not on the curve. */
function keyOfPoint(point: Uint8Array): KeyObject {
  const [x, y] = [point.subarray(0, 32), point.subarray(32)].map((half) =>
    Buffer.from(half).toString('base64url'),
  )
  return createPublicKey({ key: { kty: 'EC', crv: 'P-256', x: x!, y: y! }, format: 'jwk' })
}

function pointOfKey(key: KeyObject): Uint8Array {
  return new Uint8Array(key.export({ type: 'spki', format: 'der' }).subarray(-64))
}
