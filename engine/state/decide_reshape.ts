/** Decides a reshape: notes of one key and mint merged or split, nothing gained or lost. */
import type { CommandOf } from '../commands'
import { checkBacklog, checkKeyLimit, checkSubsystems } from './check_capacity'
import { checkNote, type NoteFound } from './check_note'
import { checkPayment } from './check_payment'
import type { Signer } from './check_signer'
import { type Env, type RefusedOutcome, refuse } from './outcome'
import type { State } from './state'

export type ReshapePlan = { ok: true; signer: Signer; notes: NoteFound[] }

export function decideReshape(
  state: State,
  command: CommandOf<'reshape'>,
  env: Env,
): ReshapePlan | RefusedOutcome {
  const signer = checkPayment(state, command)
  if (!signer.ok) return signer
  const notes = checkInputs(state, command, signer)
  if (!Array.isArray(notes)) return notes
  const inside = notes.reduce((sum, found) => sum + found.note.amount, 0n)
  const wanted = command.amounts.reduce((sum, amount) => sum + amount, 0n)
  if (inside < wanted) return refuse('collateral_insufficient')
  if (inside > wanted) return refuse('reshape_invalid', { field: 'amounts' })
  const busy = checkSubsystems(state, env) ?? checkKeyLimit(signer) ?? checkBacklog(state)
  return busy ?? { ok: true, signer, notes }
}

/** All inputs are of the mint of the first. */
function checkInputs(
  state: State,
  command: CommandOf<'reshape'>,
  signer: Signer,
): NoteFound[] | RefusedOutcome {
  const notes: NoteFound[] = []
  for (const [at, commitment] of command.inputs.entries()) {
    const mint = notes[0]?.note.mint
    const opening = command.openings[at]
    const found = checkNote(state, { commitment, opening, owner: signer.text, mint })
    if (!found.ok) return found
    notes.push(found)
  }
  return notes
}
