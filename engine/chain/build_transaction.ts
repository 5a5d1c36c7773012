/** Builds and signs one v1 transaction (4,096 bytes, limits in the message, no lookup tables). */
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

export type Lifetime = { blockhash: Blockhash; lastValidBlockHeight: bigint }
export type SignedTransaction = { signature: Signature; wire: Uint8Array; last_valid_block_height: number }

/** @throws TransactionTooLarge */
export async function buildTransaction(args: {
  payer: KeyPairSigner
  instructions: Instruction[]
  lifetime: Lifetime
  compute_units: number
  priority_fee_lamports: bigint
}): Promise<SignedTransaction> {
  const message = pipe(
    createTransactionMessage({ version: 1 }),
    (m) => setTransactionMessageFeePayerSigner(args.payer, m),
    (m) => setTransactionMessageLifetimeUsingBlockhash(args.lifetime, m),
    (m) => setTransactionMessageComputeUnitLimit(args.compute_units, m),
    (m) => setTransactionMessagePriorityFeeLamports(args.priority_fee_lamports, m),
    (m) => setTransactionMessageLoadedAccountsDataSizeLimit(LOADED_ACCOUNTS_BYTES, m),
    (m) => appendTransactionMessageInstructions(args.instructions, m),
  )
  const signed = await signTransactionMessageWithSigners(message)
  const wire = new Uint8Array(getTransactionEncoder().encode(signed))
  requireSize(1, wire.length, addressesOf(args))
  return {
    signature: getSignatureFromTransaction(signed),
    wire,
    last_valid_block_height: Number(args.lifetime.lastValidBlockHeight),
  }
}

function addressesOf({ payer, instructions }: { payer: KeyPairSigner; instructions: Instruction[] }): number {
  const addresses = new Set<string>([payer.address])
  for (const { programAddress, accounts } of instructions) {
    addresses.add(programAddress)
    for (const account of accounts ?? []) addresses.add(account.address)
  }
  return addresses.size
}
