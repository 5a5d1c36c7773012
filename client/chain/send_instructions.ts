/**
 * Signs instructions as one v1 transaction, sends it until it lands, and waits for a commitment level.
 *
 * Version 1 (4,096 bytes) because an escape needs 2.8 KB and every cluster that has a vault has v1: `initialize` fits no
 * other.
 */
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
  setTransactionMessageLoadedAccountsDataSizeLimit,
  signTransactionMessageWithSigners,
} from '@solana/kit'
import type { ChainAccess } from './chain_access'
import { isPassing, patientRead } from './patient_read'
import { landedFailure, preflightFailure, TransactionFailed } from './transaction_failed'

const POLL_MS = 150
const RESEND_EVERY_POLLS = 10
const COMPUTE_UNITS = 400_000
/** Covers vault, token and associated-token programs; a v1 transaction without a limit does not load. */
const LOADED_ACCOUNTS_BYTES = 2 * 1_048_576

/**
 * The payer signs, and whoever the instructions carry a signer for.
 * @returns the signature at `commitment`. @throws TransactionFailed
 */
export async function sendInstructions(
  chain: ChainAccess,
  instructions: Instruction[],
  commitment: 'confirmed' | 'finalized',
): Promise<Signature> {
  const { rpc } = chain
  const { value: lifetime } = await patientRead(() =>
    rpc.getLatestBlockhash({ commitment: 'confirmed' }).send(),
  )
  const message = pipe(
    createTransactionMessage({ version: 1 }),
    (m) => setTransactionMessageFeePayerSigner(chain.payer, m),
    (m) => setTransactionMessageLifetimeUsingBlockhash(lifetime, m),
    (m) => setTransactionMessageComputeUnitLimit(COMPUTE_UNITS, m),
    (m) => setTransactionMessageLoadedAccountsDataSizeLimit(LOADED_ACCOUNTS_BYTES, m),
    (m) => appendTransactionMessageInstructions(instructions, m),
  )
  const signed = await signTransactionMessageWithSigners(message)
  const signature = getSignatureFromTransaction(signed)
  const wire = getBase64EncodedWireTransaction(signed)
  for (let poll = 0; ; poll++) {
    if (poll % RESEND_EVERY_POLLS === 0) await send(chain, wire, poll > 0)
    const { value } = await patientRead(() => rpc.getSignatureStatuses([signature]).send())
    const status = value[0]
    if (status?.err) throw landedFailure(status.err)
    if (status?.confirmationStatus === 'finalized' || status?.confirmationStatus === commitment)
      return signature
    const height = await patientRead(() => rpc.getBlockHeight({ commitment: 'confirmed' }).send())
    if (!status && height > lifetime.lastValidBlockHeight)
      throw new TransactionFailed('the transaction expired before it landed, and never will: run it again')
    await Bun.sleep(POLL_MS)
  }
}

/**
 * Only the first sending is simulated: later ones would be refused for having landed. A node that is gone for a moment is
 * asked again by the next one; the bytes are the same, so nothing happens twice.
 */
async function send(
  chain: ChainAccess,
  wire: ReturnType<typeof getBase64EncodedWireTransaction>,
  again: boolean,
): Promise<void> {
  try {
    await chain.rpc.sendTransaction(wire, { encoding: 'base64', skipPreflight: again }).send()
  } catch (error) {
    const refused = preflightFailure(error)
    if (refused !== undefined || !isPassing(error)) throw refused ?? error
  }
}
