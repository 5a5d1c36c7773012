/** Applies the result of the hashing worker: registers the new notes of a batch and announces its fills. */
import type { NoteEvent } from '../../../protocol/wire/trading'
import type { CommandOf } from '../../commands'
import { keyOf } from '../state/account'
import { appendSpent, type SettlementBatch, unopenedExits, withdrawalsOf } from '../state/batch'
import type { Note } from '../state/note'
import type { Answer, Effects } from '../state/outcome'
import type { State } from '../state/state'
import { fillView } from '../state/views'

/** @throws Error when the result is not for the oldest unhashed batch, or spends a nullifier again */
export function applyHashed(state: State, fx: Effects, command: CommandOf<'hashed'>): Answer {
  const { settlement } = state
  const { batch_id, result } = command
  const batch = settlement.batches.get(batch_id)
  if (batch === undefined || batch_id !== settlement.last_hashed + 1) {
    throw new Error('settlement batches are hashed in order')
  }
  checkShape(batch, command)
  spendNullifiers(state, batch, result.nullifiers)
  batch.outputs.forEach(({ note }, at) => {
    const { commitment, blinding } = result.outputs[at]!
    state.notes.reveal(note, commitment, blinding)
    state.notes.register(note)
    announceNote(state, fx, 'note.created', note)
  })
  for (const [at, withdrawal] of withdrawalsOf(batch).entries())
    withdrawal.refund_blinding = result.refund_blindings[at]
  batch.hashed = result
  settlement.last_hashed = batch_id
  for (const fill of batch.fills) {
    fill.seq = fx.emit(fill.account, 'fill.matched', (seq) => fillView(fill, seq))
  }
  return { kind: 'done' }
}

function checkShape(batch: SettlementBatch, { result }: CommandOf<'hashed'>): void {
  const refunds = withdrawalsOf(batch).length
  const fits =
    result.nullifiers.length === batch.inputs.length + unopenedExits(batch).length &&
    result.outputs.length === batch.outputs.length &&
    result.refund_inners.length === refunds &&
    result.refund_blindings.length === refunds
  if (!fits) throw new Error('a hash result does not fit its batch')
}

function spendNullifiers(state: State, batch: SettlementBatch, nullifiers: Uint8Array[]): void {
  batch.inputs.forEach((note, at) => {
    note.setNullifier(nullifiers[at]!)
  })
  appendSpent(state, batch.batch_id, nullifiers)
}

/** Emits an event to the account of the note's key; the fee key has no account. */
export function announceNote(
  state: State,
  fx: Effects,
  kind: 'note.created' | 'note.exited',
  note: Note,
): void {
  const account = keyOf(state, note.owner)?.account
  const { known } = note
  if (account === undefined || !known) return
  const data = (): NoteEvent => ({
    commitment: note.commitment!.toHex(),
    trading_key: note.owner_text,
    mint: state.mints[note.mint]!.text,
    amount: note.amount.toString(),
  })
  fx.emit(account, kind, data)
}
