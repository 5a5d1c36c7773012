/** Lands one transaction of an operator's key: the same bytes until they expire, then new ones; done at finalized. */

import { createKeyPairSignerFromPrivateKeyBytes } from '@solana/kit'
import {
  buildTransaction,
  COMPUTE_UNITS_MAX,
  toInstruction,
} from '../../engine/chain/client/build_transaction'
import { addressOf } from '../../engine/chain/client/chain_client'
import { broadcast } from '../../engine/chain/client/land_instruction'
import { ChainUnavailable, type RpcPool } from '../../engine/chain/client/rpc_pool'
import { agreedStatuses, failureOf, transactionStatuses } from '../../engine/chain/client/transaction_status'
import { encodeBase58 } from '../../protocol/base58'
import { publicKeyOf } from '../../protocol/sign'
import type { VaultInstruction } from '../../protocol/vault/instruction'

/** Longest wait for one answer of an RPC endpoint. */
export const CALL_MS = 30_000
/** Writes of a deployment in flight at the same time. */
export const WRITES_PARALLEL_MAX = 8
/** Poll interval of a transaction's status, and polls between two broadcasts of it. */
const POLL_MS = 200
const RESEND_POLLS = 5
/** Signatures of one transaction before it counts as lost. */
const SIGNINGS_MAX = 10
/** Polls of the payer's balance before a command fails: SOL may be on its way. */
const FEE_POLLS_MAX = 15

/** Solana's base fee of one signature (Solana documentation, "Transaction fees"). */
export const SIGNATURE_LAMPORTS = 5_000n

type Landable = {
  /** 32-byte Ed25519 seeds of all signers; the first one pays. */
  seeds: readonly [Uint8Array, ...Uint8Array[]]
  instructions: readonly VaultInstruction[]
  priority_fee_lamports: bigint
}

/** Resolves with the signature. @throws Error with the chain's rejection; ChainUnavailable */
export async function landTransaction(rpc: RpcPool, landable: Landable): Promise<string> {
  const { seeds, instructions, priority_fee_lamports } = landable
  await requireLamports(rpc, publicKeyOf(seeds[0]), SIGNATURE_LAMPORTS + priority_fee_lamports)
  const signers = await Promise.all(seeds.map((seed) => createKeyPairSignerFromPrivateKeyBytes(seed)))
  const draft = {
    payer: signers[0]!,
    instructions: instructions.map((one) => toInstruction(one, signers)),
    priority_fee_lamports,
    compute_units: COMPUTE_UNITS_MAX,
  }
  for (let signing = 0; signing < SIGNINGS_MAX; signing++) {
    const { value: lifetime } = await rpc.read((endpoint, abortSignal) =>
      endpoint.getLatestBlockhash({ commitment: 'confirmed' }).send({ abortSignal }),
    )
    const signed = await buildTransaction({ ...draft, lifetime })
    const expired = async () => {
      const height = await rpc.read((endpoint, abortSignal) =>
        endpoint.getBlockHeight({ commitment: 'confirmed' }).send({ abortSignal }),
      )
      return height > signed.last_valid_block_height
    }
    if (await landSigned(rpc, signed, expired)) return encodeBase58(signed.signature)
  }
  throw new ChainUnavailable(`the transaction did not land in ${SIGNINGS_MAX} signings`)
}

/**
 * Sends the same bytes until they are finalized (true) or can no longer land (false).
 * @param expired whether a signature that is unknown afterwards stays unknown
 * @throws Error with the chain's rejection; ChainUnavailable
 */
export async function landSigned(
  rpc: RpcPool,
  { signature, wire }: { signature: Uint8Array; wire: Uint8Array },
  expired: () => Promise<boolean>,
): Promise<boolean> {
  for (let poll = 0; ; poll++) {
    if (poll % RESEND_POLLS === 0) await broadcast({ rpc }, wire)
    await rpc.sleep(POLL_MS)
    const over = await expired()
    const [status] = await transactionStatuses({ rpc }, [signature])
    if (status?.error) {
      const failure = failureOf(status.error)
      throw new Error(`the chain refused: ${failure.kind === 'program' ? failure.text : failure.name}`)
    }
    if (status?.level === 'finalized') return true
    // One provider may lag behind the one that showed the end of its life.
    if (!status && over && (await agreedStatuses({ rpc }, [signature]))[0]!.kind === 'unknown') return false
  }
}

/**
 * Endpoints silently drop transactions that their payer cannot pay for, so wait for the SOL before signing.
 * @throws Error naming the missing amount; ChainUnavailable
 */
export async function requireLamports(rpc: RpcPool, payer: Uint8Array, needed: bigint): Promise<void> {
  const address = addressOf(payer)
  let held = 0n
  for (let poll = 0; poll < FEE_POLLS_MAX; poll++) {
    if (poll > 0) await rpc.sleep(POLL_MS)
    const answer = await rpc.read((endpoint, abortSignal) =>
      endpoint.getBalance(address, { commitment: 'confirmed' }).send({ abortSignal }),
    )
    held = answer.value
    if (held >= needed) return
  }
  throw new Error(`the payer ${address} holds ${held} lamports and needs ${needed}: send it SOL`)
}
