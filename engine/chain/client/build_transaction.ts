/** Builds and signs one v1 transaction (4,096 bytes). */

import {
  type AccountMeta,
  AccountRole,
  type AccountSignerMeta,
  appendTransactionMessageInstructions,
  type Blockhash,
  createTransactionMessage,
  getTransactionEncoder,
  type Instruction,
  type KeyPairSigner,
  pipe,
  setTransactionMessageComputeUnitLimit,
  setTransactionMessageFeePayerSigner,
  setTransactionMessageLifetimeUsingBlockhash,
  setTransactionMessageLoadedAccountsDataSizeLimit,
  setTransactionMessagePriorityFeeLamports,
  signTransactionMessageWithSigners,
} from '@solana/kit'
import { LOADED_ACCOUNTS_BYTES_MAX } from '../../../protocol/limits'
import type { VaultInstruction } from '../../../protocol/vault/instruction'
import { addressOf } from './chain_client'

/** A v1 transaction with its signatures, in bytes (SIMD-0385). */
export const V1_BYTES_MAX = 4_096
/** Addresses a v1 message may hold (SIMD-0385). */
const V1_ADDRESSES_MAX = 64

/** The transaction exceeds a limit that every cluster enforces. */
export class TransactionTooLarge extends Error {
  override readonly name = 'TransactionTooLarge'
}

/** @throws TransactionTooLarge */
export function requireSize(bytes: number, addresses: number): void {
  if (bytes > V1_BYTES_MAX)
    throw new TransactionTooLarge(
      `decoded transaction too large: ${bytes} bytes (max: ${V1_BYTES_MAX} bytes)`,
    )
  if (addresses > V1_ADDRESSES_MAX)
    throw new TransactionTooLarge(`too many addresses: ${addresses} (max: ${V1_ADDRESSES_MAX})`)
}

/**
 * A vault instruction in the form that @solana/kit compiles.
 * @throws RangeError when an account must sign and none of `signers` has its address
 */
export function toInstruction(vault: VaultInstruction, signers: readonly KeyPairSigner[]): Instruction {
  const accounts = vault.accounts.map((account): AccountMeta | AccountSignerMeta => {
    const address = addressOf(account.address)
    if (!account.signer)
      return { address, role: account.writable ? AccountRole.WRITABLE : AccountRole.READONLY }
    const signer = signers.find((one) => one.address === address)
    if (!signer) throw new RangeError(`no signer for ${address}`)
    return {
      address,
      signer,
      role: account.writable ? AccountRole.WRITABLE_SIGNER : AccountRole.READONLY_SIGNER,
    }
  })
  return { programAddress: addressOf(vault.program), accounts, data: vault.data }
}

/** Runtime maximum per transaction. */
export const COMPUTE_UNITS_MAX = 1_400_000
/** Micro-lamports per lamport. */
export const MICRO_LAMPORTS = 1_000_000n

export type Lifetime = { blockhash: Blockhash; lastValidBlockHeight: bigint }
/** `signature` is the payer's, 64 bytes: the transaction's id. */
export type SignedTransaction = { signature: Uint8Array; wire: Uint8Array; last_valid_block_height: number }
type TransactionDraft = {
  payer: KeyPairSigner
  instructions: Instruction[]
  lifetime: Lifetime
  compute_units: number
  priority_fee_lamports: bigint
}

/** @throws TransactionTooLarge */
export async function buildTransaction(draft: TransactionDraft): Promise<SignedTransaction> {
  const message = pipe(
    createTransactionMessage({ version: 1 }),
    (m) => setTransactionMessageFeePayerSigner(draft.payer, m),
    (m) => setTransactionMessageLifetimeUsingBlockhash(draft.lifetime, m),
    (m) => setTransactionMessageComputeUnitLimit(draft.compute_units, m),
    (m) => setTransactionMessagePriorityFeeLamports(draft.priority_fee_lamports, m),
    (m) => setTransactionMessageLoadedAccountsDataSizeLimit(LOADED_ACCOUNTS_BYTES_MAX, m),
    (m) => appendTransactionMessageInstructions(draft.instructions, m),
  )
  const signed = await signTransactionMessageWithSigners(message)
  const wire = new Uint8Array(getTransactionEncoder().encode(signed))
  requireSize(wire.length, addressesOf(draft))
  return {
    signature: signed.signatures[draft.payer.address]!,
    wire,
    last_valid_block_height: Number(draft.lifetime.lastValidBlockHeight),
  }
}

function addressesOf({ payer, instructions }: Pick<TransactionDraft, 'payer' | 'instructions'>): number {
  const addresses = new Set<string>([payer.address])
  for (const { programAddress, accounts } of instructions) {
    addresses.add(programAddress)
    for (const account of accounts ?? []) addresses.add(account.address)
  }
  return addresses.size
}
