/** One settlement batch on its way to finality, as the relayer remembers it. */
import { decodeSettleData } from '../../protocol/vault/settle_data'
import type { SignedBatch } from '../ports'
import { transactionInstructions } from './transaction_instructions'

export type RelayedBatch = {
  readonly batch_id: number
  /** Every transaction signed for it in this run, and the journaled one; oldest first. */
  readonly signed: SignedBatch[]
  /** True while the newest transaction may still land. */
  live: boolean
  /** A block holds its newest transaction, and it did not fail. */
  executed: boolean
  /** The newest transaction was signed before the batch was next to land: what becomes of it is no verdict. */
  ahead: boolean
  stage: 'built' | 'submitted' | 'confirmed'
  /** Signature that landed it, once seen. */
  landed: Uint8Array | undefined
  /** Slot at which the newest transaction was signed. */
  signed_slot: number
  /** Slot of the last broadcast. */
  sent_slot: number
  /** Signings refused in a row; spaces them out. */
  refusals: number
  /** How often in a row a simulation or a block said that the program refuses it. */
  verdicts: number
  /** Monotonic milliseconds at which this batch became the next to land; undefined before. */
  next_since_ms: number | undefined
}

/** Epoch that a journaled transaction cites; undefined for bytes that are no settlement. */
export function epochOfSigned(signed: SignedBatch): number | undefined {
  for (const { data } of transactionInstructions(signed.transaction)) {
    const settle = decodeSettleData(data)
    if (settle) return settle.epoch
  }
  return undefined
}

/** A journaled transaction of an earlier epoch was fenced by `open_epoch` and can never succeed. */
export function resume(
  batch_id: number,
  journaled: SignedBatch | undefined,
  epoch: number,
  slot: number,
): RelayedBatch {
  return {
    batch_id,
    signed: journaled ? [journaled] : [],
    live: journaled !== undefined && epochOfSigned(journaled) === epoch,
    executed: false,
    // How an earlier run signed it is not journaled: the cautious answer.
    ahead: journaled !== undefined,
    stage: 'built',
    landed: undefined,
    signed_slot: slot,
    sent_slot: Number.NEGATIVE_INFINITY,
    refusals: 0,
    verdicts: 0,
    next_since_ms: undefined,
  }
}
