/** Applies the progress of a payout in the vault's queue: open, paid or turned into a refund note. */
import { encodeBase58 } from '../../../protocol/base58'
import { equalBytes } from '../../../protocol/bytes'
import { depositCommitment, noteInner, nullifierOf } from '../../../protocol/notes/notes'
import type { CommandOf } from '../../commands'
import type { PayoutStage } from '../../ports'
import type { Exit, Withdrawal } from '../state/batch'
import type { Answer, Effects } from '../state/outcome'
import { type Past, rowAt } from '../state/past'
import type { State } from '../state/state'
import { withdrawalView } from '../state/views'
import { announceExit, takeForExit } from './exit'
import { announceNote } from './hashed'

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
