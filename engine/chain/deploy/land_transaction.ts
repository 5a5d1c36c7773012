/** Lands one transaction of an operator's key: the same bytes until they expire, then new ones; done at finalized. */
import type { Instruction, KeyPairSigner } from '@solana/kit'
import { broadcast } from '../broadcast'
import { buildTransaction, COMPUTE_UNITS_MAX } from '../build_transaction'
import { ChainUnavailable, type RpcPool } from '../rpc_pool'
import { failureOf } from '../transaction_failure'
import { blockHeight, transactionStatuses } from '../transaction_status'

const POLL_MS = 200
const RESEND_POLLS = 5
const SIGNINGS_MAX = 10

export type Landable = { payer: KeyPairSigner; instructions: Instruction[]; priority_fee_lamports: bigint }

/** Resolves with the signature. @throws Error naming what the chain refused; ChainUnavailable */
export async function landTransaction(rpc: RpcPool, landable: Landable): Promise<string> {
  for (let signing = 0; signing < SIGNINGS_MAX; signing++) {
    const { value: lifetime } = await rpc.read((endpoint, abortSignal) =>
      endpoint.getLatestBlockhash({ commitment: 'confirmed' }).send({ abortSignal }),
    )
    const signed = await buildTransaction({ ...landable, lifetime, compute_units: COMPUTE_UNITS_MAX })
    for (let poll = 0; ; poll++) {
      if (poll % RESEND_POLLS === 0) await broadcast({ rpc }, signed.wire)
      await rpc.sleep(POLL_MS)
      const height = await blockHeight({ rpc })
      const [status] = await transactionStatuses({ rpc }, [signed.signature])
      if (status?.error) {
        const failure = failureOf(status.error)
        throw new Error(`the chain refused: ${failure.kind === 'program' ? failure.text : failure.name}`)
      }
      if (status?.level === 'finalized') return signed.signature
      if (!status && height > signed.last_valid_block_height) break
    }
  }
  throw new ChainUnavailable(`the transaction did not land in ${SIGNINGS_MAX} signings`)
}
