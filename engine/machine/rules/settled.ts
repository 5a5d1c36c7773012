/** Applies the progress of settlement on chain: stages of a batch, with its return to `submitted` after a fork, and of payouts. */
import { encodeBase58 } from '../../../protocol/base58'
import { equalBytes } from '../../../protocol/bytes'
import { depositCommitment, noteInner, nullifierOf } from '../../../protocol/notes/notes'
import type { CommandOf } from '../../commands'
import type { BatchStage, PayoutStage } from '../../ports'
import { type Exit, type Reshape, type SettlementBatch, UNPAID, type Withdrawal } from '../state/batch'
import { dropAll, notesOfBatch, retireNote } from '../state/note'
import type { Answer, Effects } from '../state/outcome'
import { type Past, rowAt } from '../state/past'
import type { State } from '../state/state'
import { fillView, reshapeView, withdrawalView } from '../state/views'
import { announceExit, takeForExit } from './exit'
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

/**
 * Ignores a payout that is not in the queue, and a repeated stage.
 * @throws Error for a number that no batch gave, and for a refund without its note
 */
export function applyPayoutStage(state: State, fx: Effects, command: CommandOf<'payout_stage'>): Answer {
  const { stage } = command
  const { settlement } = state
  if (stage.number >= settlement.next_payout)
    throw new Error('the chain names a payout that was never packed')
  const payout = settlement.queued.get(stage.number)
  if (payout === undefined) return { kind: 'done' }
  if (stage.stage === 'finalized') {
    settlement.queued.delete(stage.number)
    settlement.payouts_open -= 1
  }
  if (payout.kind === 'restored') return { kind: 'done' }
  const signature = encodeBase58(stage.signature)
  if (payout.payout_stage === stage.stage && payout.payout_signature === signature) return { kind: 'done' }
  const refunded = stage.outcome === 'refunded'
  if (refunded && (stage.refund_commitment === undefined || stage.refund_leaf_index === undefined))
    throw new Error('a refund came without its note')
  payout.payout_stage = stage.stage
  payout.payout_signature = signature
  payout.refund_commitment = refunded ? stage.refund_commitment : undefined
  const ended = stage.stage === 'finalized' ? (refunded ? 'refunded' : 'paid') : undefined
  if (payout.kind === 'exit') stageExit(state, fx, payout, ended)
  else stageWithdrawal(state, fx, payout, ended)
  if (payout.kind === 'withdrawal' && ended === 'refunded') registerRefund(state, fx, payout, command)
  return { kind: 'done' }
}

type Ended = 'paid' | 'refunded' | undefined

function stageExit(state: State, fx: Effects, exit: Exit, ended: Ended): void {
  announceExit(state, fx, exit, ended ?? 'served')
  if (ended === undefined) return
  state.settlement.exits.delete(exit.nullifier.toHex())
  if (exit.note !== undefined) state.notes.drop(exit.note)
}

function stageWithdrawal(state: State, fx: Effects, withdrawal: Withdrawal, ended: Ended): void {
  if (ended !== undefined) {
    withdrawal.status = ended
    withdrawal.ended_unix_ms = state.unix_ms
  }
  withdrawal.seq = fx.emit(withdrawal.key.account, `withdrawal.${withdrawal.status}`, (seq) =>
    withdrawalView(withdrawal, seq),
  )
}

/**
 * False for the final refund of a withdrawal whose note the own tree does not hold at that leaf: providers may have invented
 * it. The program accepts no settlement under a tree with a leaf that is not on chain.
 */
export function isRefundHeld(state: State, past: Past, stage: PayoutStage): boolean {
  const { number, refund_commitment: shown, refund_leaf_index: leaf_index } = stage
  const payout = state.settlement.queued.get(number)
  if (stage.stage !== 'finalized' || stage.outcome !== 'refunded' || payout?.kind !== 'withdrawal')
    return true
  if (shown === undefined || leaf_index === undefined || leaf_index >= state.leaves.size) return false
  const { bytes: mint } = state.mints[payout.note.mint]!
  const inner = noteInner(payout.key.bytes, payout.refund_blinding!)
  const own = depositCommitment({ mint, amount: payout.amount, inner, leaf_index })
  return equalBytes(own, shown) && equalBytes(own, rowAt(state, past, 'leaves', leaf_index))
}

/** The program has turned the payout into a note in deposit form; the chain determined its leaf. */
function registerRefund(
  state: State,
  fx: Effects,
  withdrawal: Withdrawal,
  { stage, refund_spent }: CommandOf<'payout_stage'>,
): void {
  const leaf_index = stage.refund_leaf_index!
  const commitment = withdrawal.refund_commitment!
  // Its owner may have opened, spent and settled it already: the first payer determines when its payout is reported.
  if (refund_spent || state.nullifiers.has(nullifierOf(commitment, withdrawal.refund_blinding!))) return
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
      blinding: withdrawal.refund_blinding!,
      leaf_index,
      landed: leaf_index < state.leaves.size,
    })
  // A known note was opened by its owner after the leaf became final, and may already back a command.
  if (known === undefined) state.notes.register(note)
  // A packed batch may spend it already, whose nullifier is not known before it is hashed.
  if (note.status !== 'spent') announceNote(state, fx, 'note.created', note)
  if (exit !== undefined) takeForExit(state, fx, exit, note)
}
