/** Applies the progress of a settlement batch on chain, including a return to `submitted` after a fork. */
import { encodeBase58 } from '../../../protocol/base58'
import { equalBytes } from '../../../protocol/bytes'
import type { CommandOf } from '../../commands'
import type { BatchStage } from '../../ports'
import type { Reshape, SettlementBatch, Withdrawal } from '../state/batch'
import { dropAll, notesOfBatch, retireNote } from '../state/note'
import type { Answer, Effects } from '../state/outcome'
import type { State } from '../state/state'
import { fillView, reshapeView, withdrawalView } from '../state/views'
import { takeForExit } from './exit'
import { announceNote } from './hashed'

export function applyBatchSigned(state: State, command: CommandOf<'batch_signed'>): Answer {
  const batch = state.settlement.batches.get(command.signed.batch_id)
  if (batch?.hashed === undefined) throw new Error('a batch was signed before it was hashed')
  batch.signed = command.signed
  return { kind: 'done' }
}

/** Ignores a stage of a finalized batch, and a repeated stage. */
export function applyBatchStage(state: State, fx: Effects, command: CommandOf<'batch_stage'>): Answer {
  const { stage } = command
  const { settlement } = state
  const batch = settlement.batches.get(stage.batch_id)
  if (batch === undefined) {
    if (stage.batch_id <= (settlement.landed?.batch_id ?? 0)) return { kind: 'done' }
    throw new Error('the chain names a batch that was never packed')
  }
  const signature = encodeBase58(stage.signature)
  if (batch.progress === stage.stage && batch.signature === signature) return { kind: 'done' }
  settlement.unlanded += unlandedOf(batch, stage.stage) - unlandedOf(batch, batch.progress)
  batch.progress = stage.stage
  batch.signature = signature
  for (const fill of batch.fills) {
    fill.stage = stage.stage
    fill.signature = signature
    fill.seq = fx.emit(fill.account, `fill.${stage.stage}`, (seq) => fillView(fill, seq))
  }
  stageWithdrawals(state, fx, batch, stage, signature)
  for (const reshape of batch.reshapes) stageReshape(state, fx, reshape, stage, signature)
  if (stage.stage === 'finalized') finalize(state, batch, stage)
  return { kind: 'done' }
}

function unlandedOf(batch: SettlementBatch, progress: SettlementBatch['progress']): number {
  return progress === 'built' || progress === 'submitted' ? batch.fills.length : 0
}

function stageWithdrawals(
  state: State,
  fx: Effects,
  batch: SettlementBatch,
  stage: BatchStage,
  signature: string,
): void {
  let refund = 0
  batch.payouts.forEach((payout, at) => {
    if (payout.kind === 'exit') return
    const blinding = batch.hashed!.refund_blindings[refund++]!
    const outcome = stage.payouts[at]
    const refunded = outcome?.outcome === 'refunded' ? outcome : undefined
    payout.signature = signature
    payout.refund_commitment = refunded?.refund_commitment
    const final = stage.stage === 'finalized'
    payout.status = final && refunded !== undefined ? 'refunded' : stage.stage
    if (final) payout.ended_unix_ms = state.unix_ms
    payout.seq = fx.emit(payout.key.account, `withdrawal.${payout.status}`, (seq) =>
      withdrawalView(payout, seq),
    )
    if (payout.status === 'refunded') registerRefund(state, fx, payout, blinding, refunded!)
  })
}

/** The program has turned the payout into a note in deposit form; the chain determined its leaf. */
function registerRefund(
  state: State,
  fx: Effects,
  withdrawal: Withdrawal,
  blinding: Uint8Array,
  outcome: BatchStage['payouts'][number],
): void {
  const commitment = withdrawal.refund_commitment
  if (commitment === undefined || outcome.refund_leaf_index === undefined) {
    throw new Error('a refund came without its note')
  }
  // The owner may have requested its exit already, when only the request identified the note.
  const exit = [...state.settlement.exits.values()].find((one) => equalBytes(one.commitment, commitment))
  if (exit !== undefined && exit.settlement_batch > 0) return
  const known = state.notes.find(commitment)
  const note =
    known ??
    state.notes.create({
      owner: withdrawal.key.bytes,
      key: withdrawal.key,
      mint: withdrawal.note.mint,
      amount: withdrawal.amount,
      status: 'free',
      commitment,
      blinding,
      leaf_index: outcome.refund_leaf_index,
    })
  // A known note was opened by its owner after the leaf became final, and may already back a command.
  if (known === undefined) state.notes.register(note)
  announceNote(state, fx, 'note.created', note)
  if (exit !== undefined) takeForExit(state, fx, exit, note)
}

function stageReshape(
  state: State,
  fx: Effects,
  reshape: Reshape,
  stage: BatchStage,
  signature: string,
): void {
  reshape.status = stage.stage
  reshape.signature = signature
  if (stage.stage === 'finalized') reshape.ended_unix_ms = state.unix_ms
  reshape.seq = fx.emit(reshape.key.account, `reshape.${stage.stage}`, (seq) => reshapeView(reshape, seq))
}

function finalize(state: State, batch: SettlementBatch, stage: BatchStage): void {
  const { settlement } = state
  settlement.batches.delete(batch.batch_id)
  settlement.landed = { batch_id: batch.batch_id, signature: stage.signature, slot: stage.slot }
  for (const payout of batch.payouts) {
    if (payout.kind !== 'exit') continue
    settlement.exits.delete(payout.nullifier.toHex())
    if (payout.note !== undefined) state.notes.drop(payout.note)
  }
  for (const note of batch.inputs) {
    const leaf_index = state.leaves.indexOf(note.commitment!)
    if (leaf_index !== undefined) retireNote(state, note, leaf_index)
  }
  dropAll(state.notes, notesOfBatch(batch))
}
