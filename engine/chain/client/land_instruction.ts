/** Lands one instruction of the settlement signer: sign, record, rebroadcast, sign again after expiry, until finalized. */

import type { VaultInstruction } from '../../../protocol/vault/instruction'
import { LIMITS } from '../../limits'
import type { SignedTransaction } from './build_transaction'
import type { ChainClient } from './chain_client'
import { backoffMs, ChainUnavailable } from './rpc_pool'
import { signVaultInstruction, wireText } from './sign_vault_instruction'
import {
  blockHeight,
  ChainProgramError,
  failureOf,
  isPayerShort,
  transactionStatuses,
} from './transaction_status'

export type Landing = { slot: number; signature: Uint8Array }

type LandingPlan = {
  /** Builds the instruction for each signature; undefined when the chain already shows its effect. */
  prepare: () => Promise<VaultInstruction | undefined>
  /** Stores signature and bytes before they are sent. */
  record?: (signature: Uint8Array, transaction: Uint8Array) => Promise<void>
  /** Time limit; without it only closing the client ends the attempt. */
  deadline_ms?: number
}

/**
 * Resolves with the finalized landing, or undefined when `prepare` returned undefined.
 * @throws ChainProgramError when the program rejects it; ChainUnavailable when the client closes or the deadline passes
 */
export async function landInstruction(client: ChainClient, plan: LandingPlan): Promise<Landing | undefined> {
  const { monotonicMs } = client.view.options
  const end_ms = monotonicMs() + (plan.deadline_ms ?? Number.POSITIVE_INFINITY)
  for (let attempt = 0; !client.rpc.closed && monotonicMs() < end_ms; attempt++) {
    if (attempt > 0) await client.rpc.sleep(backoffMs(attempt))
    const instruction = await plan.prepare()
    if (!instruction) return undefined
    const signing = await signVaultInstruction(client, instruction, attempt)
    if ('failure' in signing) {
      if (signing.failure.kind === 'program') throw new ChainProgramError(signing.failure)
      if (isPayerShort(signing.failure)) client.health.set('fee_payer_low', true)
      continue
    }
    const { signed } = signing
    const { signature } = signed
    await plan.record?.(signature, signed.wire)
    const slot = await untilFinalized(client, signed, end_ms)
    if (slot !== undefined) return { slot, signature }
  }
  throw new ChainUnavailable('the connection to the chain was closed or the deadline passed')
}

/** The slot at which it is finalized; undefined when it can no longer land. */
async function untilFinalized(
  client: ChainClient,
  signed: SignedTransaction,
  end_ms: number,
): Promise<number | undefined> {
  const { monotonicMs } = client.view.options
  const signed_slot = client.view.now().slot
  for (let sent_slot = Number.NEGATIVE_INFINITY; !client.rpc.closed && monotonicMs() < end_ms; ) {
    const height = await retried(client, () => blockHeight(client))
    // Read after the height: a signature unknown past its last valid height can no longer land.
    const [status] = (await retried(client, () => transactionStatuses(client, [signed.signature]))) ?? []
    if (status?.error) {
      const failure = failureOf(status.error)
      if (failure.kind === 'program') throw new ChainProgramError(failure)
      return undefined
    }
    if (status?.level === 'finalized') return status.slot
    const { slot, slot_ms } = client.view.now()
    const expired = height !== undefined && height > signed.last_valid_block_height
    if (!status && (expired || slot - signed_slot > LIMITS.transaction_life_slots_max)) return undefined
    if (!status && slot - sent_slot >= LIMITS.rebroadcast_slots) {
      sent_slot = slot
      await broadcast(client, signed.wire)
    }
    await client.rpc.sleep(slot_ms)
  }
  return undefined
}

/** Undefined when the chain is unreachable, which says nothing about bytes that are already sent. */
async function retried<T>(client: ChainClient, read: () => Promise<T>): Promise<T | undefined> {
  try {
    const value = await read()
    client.health.set('rpc_unreachable', false)
    return value
  } catch (error) {
    if (!(error instanceof ChainUnavailable)) throw error
    client.health.set('rpc_unreachable', true)
    return undefined
  }
}

/** Sends signed bytes to every endpoint. Never rejects: only the chain shows whether they land. */
export async function broadcast({ rpc }: Pick<ChainClient, 'rpc'>, wire: Uint8Array): Promise<void> {
  const text = wireText(wire)
  // No retries by the node: they would outlive the decision to sign again.
  const config = { encoding: 'base64', skipPreflight: true, maxRetries: 0n } as const
  const sent = rpc.endpoints.map((endpoint) =>
    endpoint.sendTransaction(text, config).send({ abortSignal: rpc.signal() }),
  )
  await Promise.allSettled(sent)
}
