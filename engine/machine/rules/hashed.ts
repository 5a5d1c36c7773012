/** Applies the result of the hashing worker: registers the new notes of a batch and announces its fills. */
import type { NoteEvent } from '../../../protocol/wire/trading'
import type { CommandOf } from '../../commands'
import { dropExit } from '../settlement/pack'
import { keyOf } from '../state/account'
import { appendSpent, type Exit, type SettlementBatch, unopenedExits, withdrawalsOf } from '../state/batch'
import type { Note } from '../state/note'
import type { Answer, Effects } from '../state/outcome'
import type { State } from '../state/state'
import { fillView } from '../state/views'

/**
 * Invented exits leave their batches before the result counts.
 * @throws Error when the result is not for the oldest unhashed batch, or spends a nullifier again
 */
export function applyHashed(state: State, fx: Effects, command: CommandOf<'hashed'>): Answer {
  const { settlement } = state
  const { batch_id, result } = command
  const batch = settlement.batches.get(batch_id)
  if (batch === undefined || batch_id !== settlement.last_hashed + 1) {
    throw new Error('settlement batches are hashed in order')
  }
  checkShape(batch, command)
  const invented = inventedExits(state, command)
  if (invented === undefined) throw new Error('a nullifier is spent twice')
  batch.hashed = result
  for (const exit of invented) dropExit(state, exit)
  settlement.last_hashed = batch_id
  appendSpent(state, batch_id, batch.hashed.nullifiers)
  batch.outputs.forEach(({ note }, at) => {
    const { commitment, blinding } = result.outputs[at]!
    state.notes.reveal(note, commitment, blinding)
    state.notes.register(note)
    announceNote(state, fx, 'note.created', note)
  })
  for (const [at, withdrawal] of withdrawalsOf(batch).entries())
    withdrawal.refund_blinding = result.refund_blindings[at]
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

/**
 * The exits, in unlanded batches and of notes that the engine never saw, whose nullifiers the result or an earlier batch
 * spends with another note: a real request has the nullifier of the note that its commitment names. Undefined when a
 * nullifier is spent twice and no such exit has it.
 */
export function inventedExits(
  { settlement, nullifiers }: State,
  { batch_id, result }: Pick<CommandOf<'hashed'>, 'batch_id' | 'result'>,
): Exit[] | undefined {
  const invented: Exit[] = []
  const seen = new Set<string>()
  for (const nullifier of result.nullifiers) {
    const name = nullifier.toHex()
    if (seen.has(name) || nullifiers.has(nullifier)) {
      const exit = settlement.exits.get(name)
      const batch = exit?.note === undefined && settlement.batches.get(exit?.settlement_batch ?? 0)
      if (!exit || !batch || batch.batch_id > batch_id || batch.progress === 'confirmed') return undefined
      invented.push(exit)
    }
    seen.add(name)
  }
  return invented
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
