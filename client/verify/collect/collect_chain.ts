/** Reads the vault's accounts and the app's contract from RPC endpoints that the client trusts; judges nothing. */

import { keccak_256 } from '@noble/hashes/sha3.js'
import { askJsonRpc } from '../../../protocol/ask_bounded'
import { decodeBase58, encodeBase58 } from '../../../protocol/base58'
import { toHex, utf8 } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import { ACCOUNT_BYTES, type ConfigAccount, decodeConfig } from '../../../protocol/vault/accounts'
import { programDataAddress, vaultAddresses } from '../../../protocol/vault/addresses'
import { CHAIN_LAG_ATTEMPTS_MAX, CHAIN_LAG_SLOTS_MAX, NODE_READ_WAIT_FIRST_MS } from '../../limits'
import type { ChainRecord, EvidenceBundle } from '../evidence_bundle'
import { decodeBase64 } from '../json_document'
import type { ChainPolicy, KmsPolicy } from '../policy'
import { Refused } from '../transcript'

/** The endpoint gave no result. */
export class RpcUnavailable extends Refused {
  override readonly name: string = 'RpcUnavailable'
}
/** It has not reached the slot that the call asked for. */
class RpcBehind extends RpcUnavailable {}
/** Source: Agave `rpc-client-api/src/custom_error.rs`. */
const MIN_CONTEXT_SLOT_NOT_REACHED = -32016

/** One JSON-RPC 2.0 call, to Solana or Ethereum. */
async function callRpc(url: string, method: string, params: unknown[], timeout_ms: number): Promise<unknown> {
  const payload = { jsonrpc: '2.0', id: 1, method, params }
  const answer = await askJsonRpc(url, payload, timeout_ms).catch((error: Error) => {
    throw new RpcUnavailable(`${method}: ${hostOf(url)}: ${error.message}`)
  })
  if (!('error' in answer)) return answer.result
  if (Object(answer.error).code === MIN_CONTEXT_SLOT_NOT_REACHED) throw new RpcBehind(hostOf(url))
  throw new RpcUnavailable(`${method} gave no result`)
}

/** For a transcript: the path of an address may be a secret. */
const hostOf = (url: string): string => new URL(url).host

/** Solana's upgradeable loader; a program's ELF is in its account of `UpgradeableLoaderState::ProgramData`. */
export const LOADER_V3 = 'BPFLoaderUpgradeab1e11111111111111111111111'
/** Tag u32 = 3, slot u64, authority option u8, authority (32); the ELF follows. */
const HEADER_BYTES = 45
const TAG_PROGRAM_DATA = 3
const TAG_PROGRAM = 2

/** The data account that a program account names. @throws Refused when it is no program account */
function namedProgramData(program: Uint8Array): string {
  if (program.length !== 36 || program[0] !== TAG_PROGRAM)
    throw new Refused('the program account is malformed')
  return encodeBase58(program.subarray(4))
}

/**
 * @param program_bytes length of the ELF file when known: only zeros may follow it
 * @throws Refused when the account is malformed or other bytes follow the ELF
 */
export function readProgramData(
  data: Uint8Array,
  program_bytes: number | undefined,
): { sha256: string; upgrade_authority: string | null } {
  if (data.length < HEADER_BYTES || data[0] !== TAG_PROGRAM_DATA || data[12]! > 1)
    throw new Refused('the program data account is malformed')
  const upgrade_authority = data[12] === 1 ? encodeBase58(data.slice(13, HEADER_BYTES)) : null
  const end = program_bytes === undefined ? data.length : HEADER_BYTES + program_bytes
  if (end > data.length || data.subarray(end).some((byte) => byte !== 0))
    throw new Refused('the program is longer or shorter than the policy says')
  return { sha256: toHex(sha256(data.subarray(HEADER_BYTES, end))), upgrade_authority }
}

/** First four bytes of the hash of the signature (Ethereum contract ABI, "Function selector"). */
const selector = (signature: string): string => toHex(keccak_256(utf8(signature)).subarray(0, 4))
const ALLOWED = selector('allowedComposeHashes(bytes32)')
const OWNER = selector('owner()')
const MIN_DELAY = selector('getMinDelay()')

/** The one word that a contract's read returns, 64 hex digits. @throws RpcUnavailable for any other answer */
async function readWord(policy: KmsPolicy, to: string, data: string, timeout_ms: number): Promise<string> {
  const result = await callRpc(policy.rpc_url, 'eth_call', [{ to, data: `0x${data}` }, 'latest'], timeout_ms)
  const [, word] = typeof result === 'string' ? (/^0x([0-9a-f]{64})$/.exec(result) ?? []) : []
  if (word === undefined) throw new RpcUnavailable('the contract did not answer with one word')
  return word
}

/**
 * Reads the owner of the app's contract and, when the policy asks for a timelock, the owner's delay.
 * @throws RpcUnavailable when one of them is not read
 */
export async function collectKmsContract(
  policy: KmsPolicy,
  app_id: string,
  timeout_ms: number,
): Promise<NonNullable<EvidenceBundle['kms_contract']>> {
  const word = await readWord(policy, `0x${app_id}`, OWNER, timeout_ms)
  if (!word.startsWith('0'.repeat(24))) throw new RpcUnavailable('the owner is not an address')
  const owner = `0x${word.slice(24)}`
  if (policy.timelock_min_s === undefined) return { owner, min_delay_s: null }
  const delay = BigInt(`0x${await readWord(policy, owner, MIN_DELAY, timeout_ms)}`)
  const longest = BigInt(Number.MAX_SAFE_INTEGER)
  return { owner, min_delay_s: Number(delay < longest ? delay : longest) }
}

/**
 * Asks the app's contract (dstack `DstackApp`) whether a manifest may get the app's keys.
 * @param app_id 40 hex digits, the contract's address. @throws RpcUnavailable when the answer is not a boolean
 */
export async function collectKms(
  policy: KmsPolicy,
  app_id: string,
  compose_hash: string,
  timeout_ms: number,
): Promise<boolean> {
  const word = await readWord(policy, `0x${app_id}`, `${ALLOWED}${compose_hash}`, timeout_ms)
  if (word === `${'0'.repeat(63)}1`) return true
  if (word === '0'.repeat(64)) return false
  throw new RpcUnavailable('the contract did not answer with a boolean')
}

type Account = { owner: string; data: string }
const CONFIG = { encoding: 'base64', commitment: 'confirmed' } as const

/**
 * The record of each node of the policy; all must be alike except for counters and roots that move with every batch. A change
 * may lie between the slots of two nodes, so all are read again at the newest of them before they count as different or behind.
 * @param from the slot that they have reached at least, unless one ignores it
 * @returns the record of the first, of the oldest slot of all: no part is older.
 * @throws RpcUnavailable, Refused
 */
export async function collectChain(policy: ChainPolicy, timeout_ms: number, from = 0): Promise<ChainRecord> {
  const { rpc_url, witness_rpc_urls = [] } = policy
  const urls = [rpc_url, ...witness_rpc_urls]
  for (let [attempt, since] = [1, from]; ; attempt++) {
    const reads = urls.map((url) => readNode({ ...policy, rpc_url: url }, since, timeout_ms))
    const records = (await Promise.all(reads)) as [ChainRecord, ...ChainRecord[]]
    const slots = records.map(({ slot }) => slot)
    const [oldest, newest] = [Math.min(...slots), Math.max(...slots)]
    const hosts = [oldest, newest].map((slot) => hostOf(urls[slots.indexOf(slot)]!))
    if (newest - oldest <= CHAIN_LAG_SLOTS_MAX && new Set(records.map(lastingText)).size === 1)
      return { ...records[0], slot: oldest }
    if (attempt === CHAIN_LAG_ATTEMPTS_MAX)
      throw new Refused(
        newest - oldest > CHAIN_LAG_SLOTS_MAX
          ? `${hosts[0]} is ${newest - oldest} slots behind ${hosts[1]}`
          : 'the nodes that the policy names show different vaults or announcements',
      )
    since = newest
    await pause(attempt)
  }
}

/** The same text for records of one vault, however many batches lie between them. */
function lastingText({ slot: _slot, config, announced, ...rest }: ChainRecord): string {
  const { journal_seq, journal_head, commit_seq, commit_head, last_batch, spent_count, ...decoded } =
    decodeConfig(decodeBase64(config.data)) ?? ({} as Partial<ConfigAccount>)
  const { settled_leaf_count, ...lasting } = decoded
  const facts = [rest, config.owner, announced.toSorted(), lasting]
  return JSON.stringify(facts, (_, one) => {
    if (typeof one === 'bigint') return String(one)
    return one instanceof Uint8Array ? toHex(one) : one
  })
}

/**
 * Reads the vault's and the program's accounts of one slot, then the announcements of that slot or a later one: a revocation
 * that the accounts follow is not missed.
 * @param since the slot that the accounts have reached at least, unless the node ignores it
 * @throws RpcUnavailable, Refused for an absent or malformed one
 */
async function readNode(policy: ChainPolicy, since: number, timeout_ms: number): Promise<ChainRecord> {
  const program_id = decodeBase58(policy.program_id, 32)!
  const call = (method: string, params: unknown[]) => callRpc(policy.rpc_url, method, params, timeout_ms)
  const callAt = (method: string, first: unknown, minContextSlot: number, more: object = {}) =>
    caughtUp(minContextSlot, () => call(method, [first, { ...CONFIG, ...more, minContextSlot }]))
  const data_address = encodeBase58(programDataAddress(program_id))
  const addresses = [encodeBase58(vaultAddresses(program_id).config), policy.program_id, data_address]
  const [genesis_hash, accounts] = await Promise.all([
    call('getGenesisHash', []),
    callAt('getMultipleAccounts', addresses, since),
  ])
  if (typeof genesis_hash !== 'string') throw new Refused('the genesis hash is malformed')
  const { slot, values } = readAccounts(accounts)
  const filters = [{ dataSize: ACCOUNT_BYTES.announcement }]
  const listing = { filters, withContext: true }
  const announcements = await callAt('getProgramAccounts', policy.program_id, slot, listing)
  const [config, program, program_data] = values as [Account, Account, Account]
  if (namedProgramData(decodeBase64(program.data)) !== data_address)
    throw new Refused('the program account names other data')
  const { owner } = program_data
  const described = readProgramData(decodeBase64(program_data.data), policy.program_bytes)
  const announced = readAnnounced(announcements, policy.program_id, slot)
  return { genesis_hash, slot, config, program, program_data: { owner, ...described }, announced }
}

const pause = (attempt: number) =>
  new Promise((done) => setTimeout(done, NODE_READ_WAIT_FIRST_MS * 2 ** attempt))

/** Behind one address may be several nodes, one of which has not reached the slot of another yet: asks again. */
async function caughtUp<T>(slot: number, ask: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await ask()
    } catch (error) {
      if (!(error instanceof RpcBehind)) throw error
      if (attempt === CHAIN_LAG_ATTEMPTS_MAX)
        throw new RpcUnavailable(`${error.message} has not reached slot ${slot}`)
      await pause(attempt)
    }
  }
}

/** A list and the slot of which it is. @throws Refused for an answer without one of them */
function listWithSlot(result: unknown, part: string): { slot: number; list: unknown[] } {
  const { context, value } = (result ?? {}) as { context?: { slot?: unknown }; value?: unknown }
  const slot = Number.isSafeInteger(context?.slot) ? (context?.slot as number) : -1
  if (slot < 0 || !Array.isArray(value)) throw new Refused(`${part} are malformed`)
  return { slot, list: value }
}

function readAccounts(result: unknown): { slot: number; values: Account[] } {
  const { slot, list } = listWithSlot(result, 'the accounts')
  if (list.length !== 3) throw new Refused('the accounts are malformed')
  return { slot, values: list.map(readAccount) }
}

function readAnnounced(result: unknown, program_id: string, since: number): string[] {
  const { slot, list } = listWithSlot(result, 'the announcements')
  if (slot < since) throw new Refused('the announcements are of an older slot than the accounts')
  const accounts = list.map((one) => readAccount((one as { account?: unknown } | null)?.account))
  if (accounts.some(({ owner }) => owner !== program_id))
    throw new Refused("an announcement is another program's")
  return accounts.map(({ data }) => data)
}

function readAccount(value: unknown): Account {
  const { owner, data } = (value ?? {}) as { owner?: unknown; data?: unknown }
  const text: unknown = Array.isArray(data) ? data[0] : undefined
  if (typeof owner !== 'string' || typeof text !== 'string') throw new Refused('an account is absent')
  return { owner, data: text }
}
