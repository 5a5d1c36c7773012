/** Drops an exit that was never requested, also out of a batch that has not landed; later payouts and nullifiers move up. */
import { compareBytes } from '../../../protocol/bytes'
import { type Exit, unopenedExits } from '../state/batch'
import type { State } from '../state/state'

/** Does nothing once the batch of the exit has landed, and until it is hashed. */
export function dropExit(state: State, exit: Exit): void {
  const { exits, waiting } = state.settlement
  if (exit.settlement_batch > 0 && !unpackExit(state, exit)) return
  exits.delete(exit.nullifier.toHex())
  const at = waiting.indexOf(exit)
  if (at !== -1) waiting.splice(at, 1)
  if (exit.note === undefined) return
  if (exit.note.status === 'exiting') exit.note.status = 'free'
  state.notes.drop(exit.note)
}

/** False when the batch is not hashed or has landed. The note, if it is known, is unspent again. */
function unpackExit(state: State, exit: Exit): boolean {
  const { settlement } = state
  const batch = settlement.batches.get(exit.settlement_batch)
  if (batch?.hashed === undefined || batch.progress === 'confirmed') return false
  const { note } = exit
  const input = batch.inputs.findIndex((one) => one.is(note))
  const spent = note === undefined ? batch.inputs.length + unopenedExits(batch).indexOf(exit) : input
  batch.hashed = { ...batch.hashed, nullifiers: batch.hashed.nullifiers.toSpliced(spent, 1) }
  batch.payouts.splice(batch.payouts.indexOf(exit), 1)
  if (note !== undefined) {
    batch.inputs.splice(input, 1)
    note.spent_in = 0
    note.status = 'exiting'
    state.notes.drop(note)
  }
  renumber(state, exit.payout_number)
  appendSpent(state, batch.batch_id)
  return true
}

/** The program numbers payouts as it queues them, and none after this one is queued. */
function renumber(state: State, from: number): void {
  const { settlement } = state
  for (const { payouts } of settlement.batches.values())
    for (const payout of payouts) if (payout.payout_number > from) payout.payout_number -= 1
  settlement.next_payout -= 1
  settlement.payouts_open -= 1
}

/**
 * Appends the nullifiers of this batch and the hashed ones behind it, which are all unlanded, in place of those there; in the
 * order of the spent log: ascending within a batch.
 */
export function appendSpent({ nullifiers, nullifier_ends, settlement }: State, first: number): void {
  nullifiers.truncate(nullifier_ends[first - 2] ?? 0)
  nullifier_ends.length = first - 1
  for (let batch_id = first; batch_id <= settlement.last_hashed; batch_id++) {
    for (const nullifier of [...settlement.batches.get(batch_id)!.hashed!.nullifiers].sort(compareBytes))
      nullifiers.append(nullifier)
    nullifier_ends.push(nullifiers.size)
  }
}
