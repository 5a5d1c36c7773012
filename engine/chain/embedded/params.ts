/** Reading RPC parameters: addresses, configuration objects, commitment and minimum slot. */
import { decodeBase58 } from '../../../protocol/base58'
import type { Commitment, Machine } from './machine'
import { invalidParams, RPC_CODE, RpcError } from './rpc_error'

export type Config = Record<string, unknown>
/** An RPC method: positional parameters in, result out; throws RpcError. */
export type Method = (machine: Machine, params: unknown[]) => unknown

/** The configuration object at `index`, `{}` when left out; refuses a `minContextSlot` that is not reached yet. */
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

/** Unknown levels are refused; the default is `finalized`, as on a node. */
export function commitmentOf(config: Config, name = 'commitment'): Commitment {
  const level = config[name] ?? 'finalized'
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

/** `{context, value}` as every account read answers it. */
export function withContext(machine: Machine, config: Config, value: unknown): unknown {
  return { context: { apiVersion: '4.2.0', slot: machine.slotAt(commitmentOf(config)) }, value }
}
