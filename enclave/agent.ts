/** Calls the dstack guest agent over its unix socket; ends a start without it or, in production, on a simulator. */

import { createPublicKey, type KeyObject, verify, X509Certificate } from 'node:crypto'
import { statSync } from 'node:fs'
import { type AskInit, askBounded, type NoAnswer } from '../protocol/ask_bounded'
import { concatBytes, equalBytes, fromAnyHex, fromHex, toHex } from '../protocol/bytes'
import { sha256 } from '../protocol/sha256'
import { INTEL_ROOT_KEY } from '../protocol/tdx/collateral'
import { MalformedQuote, parseQuote, type Quote } from '../protocol/tdx/quote'
import type { KeyPath } from './contract'
import { AGENT_ANSWER_BYTES_MAX } from './limits'

/** Calls the dstack guest agent over its unix socket (guest API v0, JSON transport): `/Info`, `/GetKey`, `/GetQuote`. */

/** The agent gave no usable answer. Contains the method and the kind of failure, never the content of a call. */
export class AgentFailure extends Error {
  override readonly name = 'AgentFailure'
  constructor(
    readonly method: string,
    readonly kind: 'unreachable' | 'time_limit' | 'status' | 'shape',
    detail = '',
  ) {
    super(`guest agent ${method}: ${kind}${detail}`)
  }
}

type AgentMethod = 'Info' | 'GetKey' | 'GetQuote'

/**
 * POSTs `params` to the method and returns the JSON object of a 200 answer.
 * @throws AgentFailure for no answer in time, any other status, or anything but a JSON object.
 */
async function callAgent(
  socket: string,
  method: AgentMethod,
  params: Record<string, string>,
  time_limit_ms: number,
): Promise<Record<string, unknown>> {
  const ask = (init: AskInit) =>
    fetch(`http://dstack/${method}`, {
      ...init,
      unix: socket,
      method: 'POST',
      headers: { ...init.headers, 'content-type': 'application/json' },
      body: JSON.stringify(params),
      // A pooled connection would outlive a restart of the agent and fail the next call.
      keepalive: false,
    })
  const answer = await askBounded(ask, AGENT_ANSWER_BYTES_MAX, time_limit_ms).catch((error: NoAnswer) => {
    throw new AgentFailure(method, error.kind === 'too_long' ? 'shape' : error.kind)
  })
  if (answer.status !== 200) throw new AgentFailure(method, 'status', ` ${answer.status}`)
  return jsonObject(method, new TextDecoder().decode(answer.bytes))
}

function jsonObject(method: AgentMethod, text: string): Record<string, unknown> {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new AgentFailure(method, 'shape')
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new AgentFailure(method, 'shape')
  return value as Record<string, unknown>
}

export type AgentInfo = {
  /** 40 hex digits. */
  app_id: string
  /** 40 hex digits, or empty when the manifest disables the instance id. */
  instance_id: string
  /** 64 hex digits, as stated by the agent; the self-check compares it with the measured one. */
  compose_hash: string
  /** Exact text of the app-compose.json of this boot, as stated by the agent. */
  app_compose: string
}

/**
 * The machine's own statement of its identity. Each call makes the host produce a hardware quote: call it once per boot.
 * @throws AgentFailure
 */
export async function getInfo(socket: string, time_limit_ms: number): Promise<AgentInfo> {
  const answer = await callAgent(socket, 'Info', {}, time_limit_ms)
  const tcb_info = parsed(answer['tcb_info'])
  const app_id = hex(answer['app_id'], 20)
  const instance_id = answer['instance_id'] === '' ? '' : hex(answer['instance_id'], 20)
  // The agent of dstack 0.5 states the compose hash inside tcb_info only.
  const compose_hash = hex(answer['compose_hash'] ?? tcb_info['compose_hash'], 32)
  const { app_compose } = tcb_info
  if (typeof app_compose !== 'string') throw new AgentFailure('Info', 'shape')
  return { app_id, instance_id, compose_hash, app_compose }
}

/** `tcb_info` is JSON inside a string. */
function parsed(value: unknown): Record<string, unknown> {
  try {
    const inner: unknown = typeof value === 'string' ? JSON.parse(value) : value
    if (typeof inner === 'object' && inner !== null) return inner as Record<string, unknown>
  } catch {
    // Not JSON: fails like any other wrong shape.
  }
  throw new AgentFailure('Info', 'shape')
}

function hex(value: unknown, width: number): string {
  if (typeof value !== 'string' || fromHex(value, width) === undefined)
    throw new AgentFailure('Info', 'shape')
  return value
}

/**
 * 32 secret bytes derived from the app's root key and the path, the same on every boot of the app. Purpose and algorithm only
 * label the signature chain and do not enter the derivation. @throws AgentFailure
 */
export async function getKey(socket: string, path: KeyPath, time_limit_ms: number): Promise<Uint8Array> {
  const answer = await callAgent(
    socket,
    'GetKey',
    { path, purpose: 'tacit', algorithm: 'ed25519' },
    time_limit_ms,
  )
  const { key } = answer
  const bytes = typeof key === 'string' ? fromHex(key, 32) : undefined
  if (bytes === undefined) throw new AgentFailure('GetKey', 'shape')
  return bytes
}

export type AgentQuote = {
  /** Hex, as returned by the agent. */
  quote: string
  /** The agent's strings, unchanged, as dstack-verifier takes them. */
  event_log: string
  vm_config: string
  /** 128 hex digits. */
  report_data: string
  parsed: Quote
}

/**
 * A hardware quote over 64 bytes. The only caller of `/GetQuote`: code that can request quotes can impersonate the venue.
 * @throws AgentFailure, also when the quote is not over exactly `report_data`.
 */
export async function getQuote(
  socket: string,
  report_data: Uint8Array,
  time_limit_ms: number,
): Promise<AgentQuote> {
  if (report_data.length !== 64) throw new RangeError('expected 64 bytes')
  const requested = toHex(report_data)
  const answer = await callAgent(socket, 'GetQuote', { report_data: requested }, time_limit_ms)
  const { quote, event_log, vm_config } = answer
  if (typeof quote !== 'string' || typeof event_log !== 'string' || typeof vm_config !== 'string') {
    throw new AgentFailure('GetQuote', 'shape')
  }
  const parsed = parse(quote)
  if (!equalBytes(parsed.report.report_data, report_data)) throw new AgentFailure('GetQuote', 'shape')
  return { quote, event_log, vm_config, report_data: requested, parsed }
}

function parse(quote: string): Quote {
  const bytes = fromAnyHex(quote)
  if (bytes === undefined) throw new AgentFailure('GetQuote', 'shape')
  try {
    return parseQuote(bytes)
  } catch (error) {
    if (error instanceof MalformedQuote) throw new AgentFailure('GetQuote', 'shape', `, ${error.message}`)
    throw error
  }
}

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
    throw new EnclaveRefused('the own quote is not signed by Intel hardware: this is the development enclave')
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
