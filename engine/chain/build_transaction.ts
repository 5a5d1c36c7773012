/** Builds and signs one transaction: v1 (4,096 bytes, limits in the message) or v0 (one packet, limits as instructions). */
import {
  appendTransactionMessageInstructions,
  type Blockhash,
  createTransactionMessage,
  getSignatureFromTransaction,
  getTransactionEncoder,
  type Instruction,
  type KeyPairSigner,
  pipe,
  type Signature,
  setTransactionMessageComputeUnitLimit,
  setTransactionMessageComputeUnitPrice,
  setTransactionMessageFeePayerSigner,
  setTransactionMessageLifetimeUsingBlockhash,
  setTransactionMessageLoadedAccountsDataSizeLimit,
  setTransactionMessagePriorityFeeLamports,
  signTransactionMessageWithSigners,
} from '@solana/kit'
import { requireSize } from './transaction_limits'

/** Runtime maximum per transaction. */
export const COMPUTE_UNITS_MAX = 1_400_000
/** Covers the vault program, its accounts and either token program; a v1 transaction without a limit does not load. */
const LOADED_ACCOUNTS_BYTES = 2 * 1_048_576
const MICRO_LAMPORTS = 1_000_000n

export type TransactionVersion = 0 | 1
export type Lifetime = { blockhash: Blockhash; lastValidBlockHeight: bigint }
export type SignedTransaction = { signature: Signature; wire: Uint8Array; last_valid_block_height: number }
export type TransactionDraft = {
  payer: KeyPairSigner
  instructions: Instruction[]
  lifetime: Lifetime
  compute_units: number
  priority_fee_lamports: bigint
  /** Default 1. */
  version?: TransactionVersion
}

/** @throws TransactionTooLarge */
export async function buildTransaction(draft: TransactionDraft): Promise<SignedTransaction> {
  const version = draft.version ?? 1
  const signed = await signTransactionMessageWithSigners(version === 1 ? messageV1(draft) : messageV0(draft))
  const wire = new Uint8Array(getTransactionEncoder().encode(signed))
  requireSize(version, wire.length, addressesOf(draft))
  return {
    signature: getSignatureFromTransaction(signed),
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
    (m) => setTransactionMessageLoadedAccountsDataSizeLimit(LOADED_ACCOUNTS_BYTES, m),
    (m) => appendTransactionMessageInstructions(draft.instructions, m),
  )
}

/** Without a limit for loaded accounts: its 8 bytes would push the sixth order part out of the packet. */
function messageV0(draft: TransactionDraft) {
  const units = BigInt(draft.compute_units)
  // A v0 transaction names a price per unit: rounded up, it pays what v1 pays or at most one unit's worth more.
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
