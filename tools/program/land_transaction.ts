/** Lands one transaction of an operator's key: the same bytes until they expire, then new ones; done at finalized. */

import type { Instruction, KeyPairSigner } from '@solana/kit'
import { buildTransaction, COMPUTE_UNITS_MAX } from '../../engine/chain/client/build_transaction'
import { broadcast } from '../../engine/chain/client/land_instruction'
import { ChainUnavailable, type RpcPool } from '../../engine/chain/client/rpc_pool'
import { failureOf, transactionStatuses } from '../../engine/chain/client/transaction_status'
import { encodeBase58 } from '../../protocol/base58'
import { FEE_POLLS_MAX, POLL_MS, RESEND_POLLS, SIGNINGS_MAX } from './limits'

/** Solana's base fee of one signature (Solana documentation, "Transaction fees"). */
export const SIGNATURE_LAMPORTS = 5_000n

type Landable = { payer: KeyPairSigner; instructions: Instruction[]; priority_fee_lamports: bigint }

/** Resolves with the signature. @throws Error naming what the chain refused; ChainUnavailable */
export async function landTransaction(rpc: RpcPool, landable: Landable): Promise<string> {
  await requireFee(rpc, landable)
  for (let signing = 0; signing < SIGNINGS_MAX; signing++) {
    const { value: lifetime } = await rpc.read((endpoint, abortSignal) =>
      endpoint.getLatestBlockhash({ commitment: 'confirmed' }).send({ abortSignal }),
    )
    const signed = await buildTransaction({ ...landable, lifetime, compute_units: COMPUTE_UNITS_MAX })
    for (let poll = 0; ; poll++) {
      if (poll % RESEND_POLLS === 0) await broadcast({ rpc }, signed.wire)
      await rpc.sleep(POLL_MS)
      const height = await rpc.read((endpoint, abortSignal) =>
        endpoint.getBlockHeight({ commitment: 'confirmed' }).send({ abortSignal }),
      )
      const [status] = await transactionStatuses({ rpc }, [signed.signature])
      if (status?.error) {
        const failure = failureOf(status.error)
        throw new Error(`the chain refused: ${failure.kind === 'program' ? failure.text : failure.name}`)
      }
      if (status?.level === 'finalized') return encodeBase58(signed.signature)
      if (!status && height > signed.last_valid_block_height) break
    }
  }
  throw new ChainUnavailable(`the transaction did not land in ${SIGNINGS_MAX} signings`)
}

/** Endpoints silently drop transactions that their payer cannot pay for, so wait for the SOL before signing. */
async function requireFee(rpc: RpcPool, { payer, priority_fee_lamports }: Landable): Promise<void> {
  const needed = SIGNATURE_LAMPORTS + priority_fee_lamports
  let held = 0n
  for (let poll = 0; poll < FEE_POLLS_MAX; poll++) {
    if (poll > 0) await rpc.sleep(POLL_MS)
    const answer = await rpc.read((endpoint, abortSignal) =>
      endpoint.getBalance(payer.address, { commitment: 'confirmed' }).send({ abortSignal }),
    )
    held = answer.value
    if (held >= needed) return
  }
  throw new Error(`the payer ${payer.address} holds ${held} lamports and needs ${needed}: send it SOL`)
}
