/** Reads the vault's accounts from an RPC endpoint the client trusts; judges nothing. */
import { decodeBase58, encodeBase58 } from '../../../protocol/base58'
import { vaultAddresses } from '../../../protocol/vault/addresses'
import { decodeBase64 } from '../base64'
import type { ChainRecord } from '../evidence_bundle'
import type { ChainPolicy } from '../policy'
import { Refused } from '../refused'
import { callRpc } from './json_rpc'
import { namedProgramData, programDataAddress, readProgramData } from './program_data'

type Account = { owner: string; data: string }
const CONFIG = { encoding: 'base64', commitment: 'confirmed' } as const

/** @throws RpcUnavailable, Refused when an account is absent or malformed. */
export async function collectChain(policy: ChainPolicy, timeout_ms: number): Promise<ChainRecord> {
  const program_id = decodeBase58(policy.program_id, 32)
  if (program_id === undefined) throw new Refused('the pinned program id is malformed')
  const call = (method: string, params: unknown[]) => callRpc(policy.rpc_url, method, params, timeout_ms)
  const data_address = encodeBase58(programDataAddress(program_id))
  const addresses = [encodeBase58(vaultAddresses(program_id).config), policy.program_id, data_address]
  const [genesis_hash, accounts] = await Promise.all([
    call('getGenesisHash', []),
    call('getMultipleAccounts', [addresses, CONFIG]),
  ])
  if (typeof genesis_hash !== 'string') throw new Refused('the genesis hash is malformed')
  const { slot, values } = readAccounts(accounts)
  const [config, program, program_data] = values as [Account, Account, Account]
  if (namedProgramData(decodeBase64(program.data)) !== data_address)
    throw new Refused('the program account names other data')
  const { owner } = program_data
  const described = readProgramData(decodeBase64(program_data.data), policy.program_bytes)
  return { genesis_hash, slot, config, program, program_data: { owner, ...described } }
}

function readAccounts(result: unknown): { slot: number; values: Account[] } {
  const { context, value } = (result ?? {}) as { context?: { slot?: unknown }; value?: unknown }
  const slot = context?.slot
  if (typeof slot !== 'number' || !Array.isArray(value) || value.length !== 3)
    throw new Refused('the accounts are malformed')
  return { slot, values: value.map(readAccount) }
}

function readAccount(value: unknown): Account {
  const { owner, data } = (value ?? {}) as { owner?: unknown; data?: unknown }
  const text: unknown = Array.isArray(data) ? data[0] : undefined
  if (typeof owner !== 'string' || typeof text !== 'string') throw new Refused('an account is absent')
  return { owner, data: text }
}
