/** Checks the venue's own quote at boot, and keeps production on real hardware. */

import { createPublicKey, type KeyObject, verify, X509Certificate } from 'node:crypto'
import { statSync } from 'node:fs'
import { concatBytes, equalBytes, fromHex, toHex } from '../protocol/bytes'
import { sha256 } from '../protocol/sha256'
import { INTEL_ROOT_KEY } from '../protocol/tdx/collateral'
import { MalformedEventLog, measuredClaims, parseEventLog, replayRegisters } from '../protocol/tdx/event_log'
import { judgeMrConfigId } from '../protocol/tdx/mr_config_id'
import type { Quote } from '../protocol/tdx/quote'
import { attestationReportData } from '../protocol/tdx/report_data'
import { tdFault } from '../protocol/tdx/td_rules'
import type { AgentInfo, AgentQuote } from './agent'

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

/** The reasons why a client would reject the venue's own quote, if any. `own` is the quote without nonce. */
export function selfCheck(own: AgentQuote, info: AgentInfo, tee_pubkey: Uint8Array): string[] {
  const { report } = own.parsed
  const reasons: string[] = []
  const must = (holds: boolean, reason: string) => {
    if (!holds) reasons.push(reason)
  }
  const fault = tdFault(report)
  if (fault !== undefined) reasons.push(fault)
  const expected = attestationReportData(new Uint8Array(32), tee_pubkey)
  must(equalBytes(report.report_data, expected), 'report_data does not bind tee_pubkey')

  const compose_hash = sha256(info.app_compose)
  must(toHex(compose_hash) === info.compose_hash, 'the compose hash is not the hash of the manifest')
  reasons.push(...checkEventLog(own, info, compose_hash))
  return reasons
}

function checkEventLog(own: AgentQuote, info: AgentInfo, compose_hash: Uint8Array): string[] {
  try {
    const events = parseEventLog(own.event_log)
    const registers = replayRegisters(events)
    const wrong = registers.flatMap((register, index) =>
      equalBytes(register, own.parsed.report.rtmr[index]!)
        ? []
        : [`the event log does not replay to RTMR${index}`],
    )
    const claims = measuredClaims(events)
    if (!equalBytes(claims.compose_hash, compose_hash)) wrong.push('another manifest was measured')
    if (!equalBytes(claims.app_id, fromHex(info.app_id, 20)!)) wrong.push('another app id was measured')
    if (toHex(claims.instance_id) !== info.instance_id) wrong.push('another instance id was measured')
    const config_id = judgeMrConfigId(own.parsed.report.mr_config_id, claims)
    if (config_id === 'malformed') wrong.push('MRCONFIGID has an unknown form')
    if (config_id === 'other') wrong.push('MRCONFIGID commits to other facts than the measured ones')
    return wrong
  } catch (error) {
    if (error instanceof MalformedEventLog) return [error.message]
    throw error
  }
}
