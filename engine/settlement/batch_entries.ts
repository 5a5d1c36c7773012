/** The four ways value moves in a settlement batch: a note spent, a note made, fees taken, fees issued. */
import type { Note, NoteFacts } from '../state/note'
import type { State } from '../state/state'
import type { Exit, Output, SettlementBatch } from './batch'

/** Makes a note an input of the batch; from here on it is spent. */
export function spendNote(state: State, batch: SettlementBatch, note: Note): void {
  note.status = 'spent'
  note.spent_in = batch.batch_id
  batch.inputs.push(note)
  state.notes.hold(note)
  coverLeaf(state, batch, note.leaf_index)
}

/** The state the batch cites must hold the leaf. */
export function coverLeaf(state: State, batch: SettlementBatch, leaf_index: number | undefined): void {
  const { settlement } = state
  if (leaf_index !== undefined && leaf_index >= settlement.leaf_count_min) {
    settlement.leaf_count_min = leaf_index + 1
  }
  batch.leaf_count_min = settlement.leaf_count_min
}

/** Exits of notes the engine does not know: they spend a nullifier and pay its amount, and have no input note. */
export function unopenedExits(batch: SettlementBatch): Exit[] {
  return batch.payouts.filter((payout) => payout.kind === 'exit').filter((exit) => exit.note === undefined)
}

type NewNote = Pick<NoteFacts, 'owner' | 'key' | 'mint' | 'amount'> & { status: 'free' | 'in_use' }

/** Makes a note an output of the batch; undefined for nothing, because zero amounts create no output. */
export function createNote(
  state: State,
  batch: SettlementBatch,
  made: NewNote,
  { anchor, order_id, nonce, index_role }: Omit<Output, 'note'>,
): Note | undefined {
  if (made.amount < 0n) throw new Error('a note cannot be negative')
  if (made.amount === 0n) return undefined
  const note = state.notes.create(made)
  batch.outputs.push({ note, anchor, order_id, nonce, index_role })
  state.notes.hold(note)
  return note
}

/** Adds to (or, negative, takes from) the accrued fees of a mint. */
export function moveFees(state: State, batch: SettlementBatch, mint: number, change: bigint): void {
  const { fees } = state.settlement
  const accrued = (fees[mint] ?? 0n) + change
  if (accrued < 0n) throw new Error('accrued fees cannot be negative')
  fees[mint] = accrued
  batch.fees[mint] = (batch.fees[mint] ?? 0n) + change
}
