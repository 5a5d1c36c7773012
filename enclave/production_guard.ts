/** Ends the start of a process whose guest agent is absent or, in production, a simulator. */

import { createPublicKey, type KeyObject, verify, X509Certificate } from 'node:crypto'
import { statSync } from 'node:fs'
import { concatBytes, equalBytes } from '../protocol/bytes'
import { sha256 } from '../protocol/sha256'
import { INTEL_ROOT_KEY } from '../protocol/tdx/collateral'
import type { Quote } from '../protocol/tdx/quote'

/** Ends the start of the process. */
class EnclaveRefused extends Error {
  override readonly name = 'EnclaveRefused'
}

/** @throws EnclaveRefused unless the path is a unix socket, as the guest agent's is. */
export function requireSocket(path: string): void {
  const found = statSync(path, { throwIfNoEntry: false })
  if (found === undefined || !found.isSocket()) throw new EnclaveRefused('there is no guest agent socket')
}

/**
 * Requires that every signature of the own quote is valid, in production up to Intel's root key. No setting skips this.
 * @throws EnclaveRefused
 */
export function requireRoot(kind: 'dstack' | 'development', quote: Quote): void {
  const root_key = quoteRootKey(quote)
  if (root_key === undefined) throw new EnclaveRefused('the signatures of the own quote do not hold')
  if (kind === 'dstack' && !equalBytes(root_key, INTEL_ROOT_KEY)) {
    throw new EnclaveRefused('the own quote is not signed by Intel hardware: this is a development stand-in')
  }
}

/**
 * Verifies the signatures of a quote from the TD report up to the root certificate it contains. Returns the raw 64-byte P-256
 * key of that root; undefined when a signature is invalid. Clients check revocation, dates and platform status: this only
 * distinguishes real hardware from a simulator.
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
