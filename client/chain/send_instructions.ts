/** Signs instructions as one v0 transaction, sends it until it lands, and waits for a commitment level. */
import {
  appendTransactionMessageInstructions,
  createTransactionMessage,
  getBase64EncodedWireTransaction,
  getSignatureFromTransaction,
  type Instruction,
  pipe,
  type Signature,
  setTransactionMessageComputeUnitLimit,
  setTransactionMessageFeePayerSigner,
  setTransactionMessageLifetimeUsingBlockhash,
  signTransactionMessageWithSigners,
} from '@solana/kit'
import type { ChainAccess } from './chain_access'

const POLL_MS = 150
const RESEND_EVERY_POLLS = 10
const COMPUTE_UNITS = 400_000

/** A transaction that landed with an error, or whose blockhash expired before it landed. */
export class TransactionFailed extends Error {}

/** @returns the signature at `commitment`. @throws TransactionFailed */
export async function sendInstructions(
  chain: ChainAccess,
  instructions: Instruction[],
  commitment: 'confirmed' | 'finalized',
): Promise<Signature> {
  const { value: lifetime } = await chain.rpc.getLatestBlockhash({ commitment: 'confirmed' }).send()
  const message = pipe(
    createTransactionMessage({ version: 0 }),
    (m) => setTransactionMessageFeePayerSigner(chain.payer, m),
    (m) => setTransactionMessageLifetimeUsingBlockhash(lifetime, m),
    (m) => setTransactionMessageComputeUnitLimit(COMPUTE_UNITS, m),
    (m) => appendTransactionMessageInstructions(instructions, m),
  )
  const signed = await signTransactionMessageWithSigners(message)
  const signature = getSignatureFromTransaction(signed)
  const wire = getBase64EncodedWireTransaction(signed)
  for (let poll = 0; ; poll++) {
    if (poll % RESEND_EVERY_POLLS === 0) {
      await chain.rpc.sendTransaction(wire, { encoding: 'base64', skipPreflight: poll > 0 }).send()
    }
    const { value } = await chain.rpc.getSignatureStatuses([signature]).send()
    const status = value[0]
    if (status?.err) throw new TransactionFailed('the transaction landed with an error')
    if (status?.confirmationStatus === 'finalized' || status?.confirmationStatus === commitment)
      return signature
    const height = await chain.rpc.getBlockHeight({ commitment: 'confirmed' }).send()
    if (!status && height > lifetime.lastValidBlockHeight)
      throw new TransactionFailed('the transaction expired')
    await Bun.sleep(POLL_MS)
  }
}
