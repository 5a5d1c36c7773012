/** Reads parameters and writes replies of a Solana node's JSON-RPC. */
import { decodeBase58 } from '../../protocol/base58'
import type { Commitment, Machine } from './machine'

/** JSON text that is copied into a reply unchanged. */
export class RawJson {
  constructor(readonly text: string) {}
}

/** Writes bigints as bare integers, which JSON.stringify cannot do. */
export function encodeJson(value: unknown): string {
  if (typeof value === 'bigint') return value.toString()
  if (value instanceof RawJson) return value.text
  if (value === null || typeof value !== 'object') return JSON.stringify(value) ?? 'null'
  if (Array.isArray(value)) return `[${value.map(encodeJson).join(',')}]`
  const members: string[] = []
  for (const [name, member] of Object.entries(value)) {
    if (member !== undefined) members.push(`${JSON.stringify(name)}:${encodeJson(member)}`)
  }
  return `{${members.join(',')}}`
}

/** Error codes. Source: Agave `rpc-client-api/src/custom_error.rs` and JSON-RPC 2.0 section 5.1. */
export const RPC_CODE = {
  preflight_failure: -32002,
  signature_verification_failure: -32003,
  node_unhealthy: -32005,
  unsupported_transaction_version: -32015,
  min_context_slot_not_reached: -32016,
  parse_error: -32700,
  invalid_request: -32600,
  method_not_found: -32601,
  invalid_params: -32602,
} as const

export class RpcError extends Error {
  constructor(
    readonly code: number,
    message: string,
    readonly data?: unknown,
  ) {
    super(message)
  }
}

export function invalidParams(message: string): RpcError {
  return new RpcError(RPC_CODE.invalid_params, `Invalid params: ${message}`)
}

export type Config = Record<string, unknown>
/** An RPC method: positional parameters in, result out; throws RpcError. */
export type Method = (machine: Machine, params: unknown[]) => unknown

/** The configuration object at `index`, `{}` if absent. @throws RpcError for a `minContextSlot` in the future */
export function configAt(machine: Machine, params: unknown[], index: number): Config {
  const config = params[index] ?? {}
  if (typeof config !== 'object' || Array.isArray(config)) throw invalidParams('expected an object')
  const minimum = (config as Config)['minContextSlot']
  const slot = machine.slotAt(commitmentOf(config as Config))
  if (typeof minimum === 'number' && minimum > slot) {
    throw new RpcError(RPC_CODE.min_context_slot_not_reached, 'Minimum context slot has not been reached', {
      contextSlot: slot,
    })
  }
  return config as Config
}

/** Default `finalized`, as on a node. @throws RpcError for an unknown level */
export function commitmentOf(config: Config): Commitment {
  const level = config['commitment'] ?? 'finalized'
  if (level === 'processed' || level === 'confirmed' || level === 'finalized') return level
  throw invalidParams('unknown commitment')
}

export function addressAt(params: unknown[], index: number): string {
  const address = params[index]
  if (typeof address !== 'string' || !decodeBase58(address, 32))
    throw invalidParams('expected a base58 address')
  return address
}

export function addressesAt(params: unknown[], index: number, max: number): string[] {
  const list = params[index]
  if (!Array.isArray(list) || list.length > max) throw invalidParams(`expected at most ${max} addresses`)
  return list.map((_, at) => addressAt(list, at))
}

export function textAt(params: unknown[], index: number): string {
  const text = params[index]
  if (typeof text !== 'string') throw invalidParams('expected a string')
  return text
}

/** @throws RpcError for an encoding other than base64; `jsonParsed` becomes base64, as on a node without a parser */
export function requireBase64({ encoding }: Config): void {
  if (encoding !== 'base64' && encoding !== 'jsonParsed') throw invalidParams('ask for encoding base64')
}

/** A method with its configuration at `index`; the result names the slot of the commitment that was asked for. */
export function inContext(
  index: number,
  read: (machine: Machine, params: unknown[], level: Commitment, config: Config) => unknown,
): Method {
  return (machine, params) => {
    const config = configAt(machine, params, index)
    const level = commitmentOf(config)
    const context = { apiVersion: '4.2.0', slot: machine.slotAt(level) }
    return { context, value: read(machine, params, level, config) }
  }
}
