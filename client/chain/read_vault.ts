/** Reads the vault's accounts; derives, creates and reads associated token accounts (SPL). */

import type { Address, Instruction } from '@solana/kit'
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { TacitError } from '../../protocol/tacit_error'
import {
  type ConfigAccount,
  decodeConfig,
  decodeExitRequest,
  decodeMintRecord,
  decodeQueue,
  decodeRing,
  decodeTree,
  type ExitRequest,
  type MintRecord,
  type QueueAccount,
  type RingAccount,
  type TreeAccount,
} from '../../protocol/vault/accounts'
import {
  associatedAccount,
  exitRequestAddress,
  mintRecordAddress,
  vaultAddresses,
} from '../../protocol/vault/addresses'
import { createAssociatedInstruction } from '../../protocol/vault/instruction'
import {
  addressOf,
  bytesOfBase64,
  type ChainAccess,
  type ChainNode,
  type ChainReader,
  patientRead,
  payerKey,
  toInstruction,
} from './chain_access'

type Commitment = 'confirmed' | 'finalized'
/** All four accounts as of one slot. */
export type VaultState = {
  slot: number
  config: ConfigAccount
  tree: TreeAccount
  ring: RingAccount
  queue: QueueAccount
}

/** The program has no vault, or one of its accounts is malformed or owned by another program. */
export class NotAVault extends TacitError<{ finding: string }> {
  override readonly name = 'NotAVault'
  readonly code = 'not_a_vault'
  constructor(finding: string) {
    super(`${finding}: check the program's address and the cluster the node belongs to`, { finding })
  }
}

/** Data of each account, undefined when it is absent or the program does not own it. */
export async function readAccounts(
  { rpc }: ChainNode,
  program_id: string,
  addresses: readonly Uint8Array[],
  commitment: Commitment,
): Promise<{ slot: number; data: (Uint8Array | undefined)[] }> {
  const { context, value } = await patientRead(() =>
    rpc.getMultipleAccounts(addresses.map(addressOf), { encoding: 'base64', commitment }).send(),
  )
  const data = value.map((account) => {
    if (account === null || account.owner !== program_id) return undefined
    return bytesOfBase64(account.data[0])
  })
  return { slot: Number(context.slot), data }
}

/** @throws NotAVault */
export async function readVaultState(
  chain: ChainNode,
  program_id: string,
  commitment: Commitment = 'finalized',
): Promise<VaultState> {
  const at = vaultAddresses(programBytes(program_id))
  const addresses = [at.config, at.tree, at.ring, at.queue]
  const { slot, data } = await readAccounts(chain, program_id, addresses, commitment)
  const config = data[0] && decodeConfig(data[0])
  const tree = data[1] && decodeTree(data[1])
  const ring = data[2] && decodeRing(data[2])
  const queue = data[3] && decodeQueue(data[3])
  if (config === undefined || tree === undefined || ring === undefined || queue === undefined)
    throw new NotAVault('the vault of this program is not on the chain')
  return { slot, config, tree, ring, queue }
}

/** @param mint base58. @throws NotAVault when the mint is not registered */
export async function readMintRecord(
  chain: ChainNode,
  program_id: string,
  mint: string,
): Promise<MintRecord> {
  const address = mintRecordAddress(programBytes(program_id), decodeBase58(mint, 32)!)
  const { data } = await readAccounts(chain, program_id, [address], 'confirmed')
  const record = data[0] && decodeMintRecord(data[0])
  if (record === undefined) throw new NotAVault(`the vault of this program takes no ${mint}`)
  return record
}

/** The exit request of a note, open or served; undefined when there is none. */
export async function readExitRequest(
  chain: ChainNode,
  program_id: string,
  nullifier: Uint8Array,
): Promise<ExitRequest | undefined> {
  const address = exitRequestAddress(programBytes(program_id), nullifier)
  const { data } = await readAccounts(chain, program_id, [address], 'confirmed')
  return data[0] && decodeExitRequest(data[0])
}

/** @throws RangeError for text that is no address */
export function programBytes(program_id: string): Uint8Array {
  const bytes = decodeBase58(program_id, 32)
  if (bytes === undefined) throw new RangeError('the program id is not an address')
  return bytes
}

/** Without extensions. */
export const TOKEN_ACCOUNT_BYTES = 165
const STATE_AT = 108
const DECIMALS_AT = 44

export const createAssociatedAccount = (
  chain: ChainAccess,
  owner: Uint8Array,
  mint: Uint8Array,
  token_program?: Uint8Array,
): Instruction =>
  toInstruction(createAssociatedInstruction(payerKey(chain), owner, mint, token_program), [chain.payer])

/** At `confirmed`. */
export async function accountExists({ rpc }: ChainReader, account: Uint8Array): Promise<boolean> {
  const config = { encoding: 'base64', commitment: 'confirmed' } as const
  const { value } = await patientRead(() => rpc.getAccountInfo(addressOf(account), config).send())
  return value !== null
}

/** SPL Token account: mint (32) at 0, state u8 at 108: 1 initialized, 2 frozen; 165 bytes, Token-2022 extensions behind them. */
export async function readTokenAccount(
  { rpc }: ChainReader,
  account: Uint8Array,
  token_program: Uint8Array,
): Promise<{ mint: Uint8Array; frozen: boolean } | undefined> {
  const config = { encoding: 'base64', commitment: 'confirmed' } as const
  const { value } = await patientRead(() => rpc.getAccountInfo(addressOf(account), config).send())
  if (value === null || value.owner !== addressOf(token_program)) return undefined
  const data = bytesOfBase64(value.data[0])
  const state = data.length >= TOKEN_ACCOUNT_BYTES ? data[STATE_AT] : undefined
  return state === 1 || state === 2 ? { mint: data.slice(0, 32), frozen: state === 2 } : undefined
}

/** SPL mint: decimals u8 at 44. Undefined where there is no mint. */
export async function readMintDecimals({ rpc }: ChainReader, mint: string): Promise<number | undefined> {
  const config = { encoding: 'base64', commitment: 'confirmed' } as const
  const { value } = await patientRead(() => rpc.getAccountInfo(mint as Address, config).send())
  return value === null ? undefined : bytesOfBase64(value.data[0])[DECIMALS_AT]
}

/** Base units in a token account at `confirmed`; 0 when the account does not exist. */
export async function tokenBalance(chain: ChainReader, account: Uint8Array): Promise<bigint> {
  const address = addressOf(account)
  if (!(await accountExists(chain, account))) return 0n
  const balance = await patientRead(() =>
    chain.rpc.getTokenAccountBalance(address, { commitment: 'confirmed' }).send(),
  )
  return BigInt(balance.value.amount)
}

/** The payer's own associated account of a mint, base58. */
export function ownAccount(
  chain: ChainAccess,
  mint: string,
  token_program?: Uint8Array,
): { bytes: Uint8Array; text: string } {
  const owner = payerKey(chain)
  const bytes = associatedAccount(owner, decodeBase58(mint, 32)!, token_program)
  return { bytes, text: encodeBase58(bytes) }
}
