/** Builds and signs one transaction: v1 (4,096 bytes) or v0 (one packet). */

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
  setTransactionMessageComputeUnitPrice,
  setTransactionMessageFeePayerSigner,
  setTransactionMessageLifetimeUsingBlockhash,
  setTransactionMessageLoadedAccountsDataSizeLimit,
  setTransactionMessagePriorityFeeLamports,
  signTransactionMessageWithSigners,
} from '@solana/kit'
import { LOADED_ACCOUNTS_BYTES_MAX } from '../../../protocol/limits'
import type { VaultInstruction } from '../../../protocol/vault/instruction'
import { addressOf } from './chain_client'
import type { TransactionFailure } from './transaction_status'

/** A v1 transaction with its signatures, in bytes (SIMD-0385). */
export const V1_BYTES_MAX = 4_096
/** Addresses a v1 message may hold (SIMD-0385). */
const V1_ADDRESSES_MAX = 64
/** Legacy and v0 transactions: one packet. */
export const PACKET_BYTES_MAX = 1_232

/** The transaction exceeds a limit that every cluster enforces. */
export class TransactionTooLarge extends Error {
  override readonly name = 'TransactionTooLarge'
}

/** @throws TransactionTooLarge */
export function requireSize(version: number | 'legacy', bytes: number, addresses: number): void {
  const bytes_max = version === 1 ? V1_BYTES_MAX : PACKET_BYTES_MAX
  if (bytes > bytes_max)
    throw new TransactionTooLarge(`decoded transaction too large: ${bytes} bytes (max: ${bytes_max} bytes)`)
  if (version === 1 && addresses > V1_ADDRESSES_MAX)
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

export type TransactionVersion = 0 | 1
export type Lifetime = { blockhash: Blockhash; lastValidBlockHeight: bigint }
/** `signature` is the payer's, 64 bytes: the transaction's id. */
export type SignedTransaction = { signature: Uint8Array; wire: Uint8Array; last_valid_block_height: number }
type TransactionDraft = {
  payer: KeyPairSigner
  instructions: Instruction[]
  lifetime: Lifetime
  compute_units: number
  priority_fee_lamports: bigint
  /** Default 1. */
  version?: TransactionVersion
}

/** Limits go into the message of a v1 transaction, into instructions of a v0 one. @throws TransactionTooLarge */
export async function buildTransaction(draft: TransactionDraft): Promise<SignedTransaction> {
  const version = draft.version ?? 1
  const signed = await signTransactionMessageWithSigners(version === 1 ? messageV1(draft) : messageV0(draft))
  const wire = new Uint8Array(getTransactionEncoder().encode(signed))
  requireSize(version, wire.length, addressesOf(draft))
  return {
    signature: signed.signatures[draft.payer.address]!,
    wire,
    last_valid_block_height: Number(draft.lifetime.lastValidBlockHeight),
  }
}

function messageV1(draft: TransactionDraft) {
  return pipe(
    createTransactionMessage({ version: 1 }),
    (m) => setTransactionMessageFeePayerSigner(draft.payer, m),
    (m) => setTransactionMessageLifetimeUsingBlockhash(draft.lifetime, m),
    (m) => setTransactionMessageComputeUnitLimit(draft.compute_units, m),
    (m) => setTransactionMessagePriorityFeeLamports(draft.priority_fee_lamports, m),
    (m) => setTransactionMessageLoadedAccountsDataSizeLimit(LOADED_ACCOUNTS_BYTES_MAX, m),
    (m) => appendTransactionMessageInstructions(draft.instructions, m),
  )
}

/** Sets no limit for loaded accounts: its 8 bytes would push the sixth order part out of the packet. */
function messageV0(draft: TransactionDraft) {
  const units = BigInt(draft.compute_units)
  // A v0 transaction sets a price per unit; rounding up costs at most one micro-lamport per unit more than v1.
  const price = (draft.priority_fee_lamports * MICRO_LAMPORTS + units - 1n) / units
  return pipe(
    createTransactionMessage({ version: 0 }),
    (m) => setTransactionMessageFeePayerSigner(draft.payer, m),
    (m) => setTransactionMessageLifetimeUsingBlockhash(draft.lifetime, m),
    (m) => setTransactionMessageComputeUnitLimit(draft.compute_units, m),
    (m) => setTransactionMessageComputeUnitPrice(price, m),
    (m) => appendTransactionMessageInstructions(draft.instructions, m),
  )
}

function addressesOf({ payer, instructions }: Pick<TransactionDraft, 'payer' | 'instructions'>): number {
  const addresses = new Set<string>([payer.address])
  for (const { programAddress, accounts } of instructions) {
    addresses.add(programAddress)
    for (const account of accounts ?? []) addresses.add(account.address)
  }
  return addresses.size
}

export type Built = { signed: SignedTransaction } | { failure: TransactionFailure }

/**
 * Builds the transaction in the version the operator chose. One that exceeds a packet, such as the proof of an exit refusal
 * or a batch packed before the operator chose v0, becomes v1.
 */
export async function buildFitting(draft: TransactionDraft, wanted: TransactionVersion): Promise<Built> {
  const small = wanted === 0 ? await build(draft, 0) : undefined
  return small && 'signed' in small ? small : build(draft, 1)
}

async function build(draft: TransactionDraft, version: TransactionVersion): Promise<Built> {
  try {
    return { signed: await buildTransaction({ ...draft, version }) }
  } catch (error) {
    if (!(error instanceof TransactionTooLarge)) throw error
    return { failure: { kind: 'transient', name: error.name } }
  }
}
