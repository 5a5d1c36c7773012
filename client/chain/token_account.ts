/** Derives, creates and reads associated token accounts (SPL). */

import type { Address, Instruction } from '@solana/kit'
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { associatedAccount } from '../../protocol/vault/addresses'
import { createAssociatedInstruction } from '../../protocol/vault/instruction'
import {
  addressOf,
  bytesOfBase64,
  type ChainAccess,
  type ChainReader,
  patientRead,
  payerKey,
  toInstruction,
} from './chain_access'

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
