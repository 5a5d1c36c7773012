/** Applies the progress of a settlement batch on chain, including a return to `submitted` after a fork. */
import { encodeBase58 } from '../../../protocol/base58'
import type { CommandOf } from '../../commands'
import type { BatchStage } from '../../ports'
import { type Exit, type Reshape, type SettlementBatch, UNPAID, type Withdrawal } from '../state/batch'
import { dropAll, notesOfBatch, retireNote } from '../state/note'
import type { Answer, Effects } from '../state/outcome'
import type { State } from '../state/state'
import { fillView, reshapeView, withdrawalView } from '../state/views'
import { announceExit } from './exit'

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
  for (const payout of batch.payouts) stagePayout(state, fx, payout, stage.stage, signature)
  for (const reshape of batch.reshapes) stageReshape(state, fx, reshape, stage, signature)
  if (stage.stage === 'finalized') finalize(state, batch, stage)
  return { kind: 'done' }
}

function unlandedOf(batch: SettlementBatch, progress: SettlementBatch['progress']): number {
  return progress === 'built' || progress === 'submitted' ? batch.fills.length : 0
}

/** A payout enters the vault's queue with its batch, and leaves it when a fork drops the batch. */
function stagePayout(
  state: State,
  fx: Effects,
  payout: Withdrawal | Exit,
  stage: BatchStage['stage'],
  signature: string,
): void {
  const { queued } = state.settlement
  const { payout_number } = payout
  if (payout.payout_stage === 'finalized') return
  const was_queued = queued.has(payout_number)
  if (stage === 'submitted') {
    queued.delete(payout_number)
    Object.assign(payout, { ...UNPAID, payout_number })
  } else queued.set(payout_number, payout)
  if (payout.kind === 'exit') {
    const is_queued = stage !== 'submitted'
    if (is_queued !== was_queued) announceExit(state, fx, payout, is_queued ? 'served' : 'requested')
    return
  }
  payout.signature = signature
  payout.status = stage
  payout.ended_unix_ms = 0
  payout.seq = fx.emit(payout.key.account, `withdrawal.${payout.status}`, (seq) =>
    withdrawalView(payout, seq),
  )
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
  reshape.seq = fx.emit(reshape.key.account, `reshape.${stage.stage}`, (seq) =>
    reshapeView(state, reshape, seq),
  )
}

function finalize(state: State, batch: SettlementBatch, stage: BatchStage): void {
  const { settlement } = state
  settlement.batches.delete(batch.batch_id)
  settlement.landed = { batch_id: batch.batch_id, signature: stage.signature, slot: stage.slot }
  for (const note of batch.inputs) {
    if (note.landed) retireNote(state, note)
  }
  dropAll(state.notes, notesOfBatch(batch))
}
