/** Decides a withdrawal: part of a note, or all of it, to a token account. */
import type { CommandOf } from '../commands'
import { checkBacklog, checkKeyLimit, checkSubsystems } from './check_capacity'
import { checkNote, type NoteFound } from './check_note'
import { checkPayment } from './check_payment'
import type { Signer } from './check_signer'
import { type Env, type RefusedOutcome, refuse } from './outcome'
import type { State } from './state'

export type WithdrawPlan = { ok: true; signer: Signer; note: NoteFound; fee: bigint }

export function decideWithdraw(
  state: State,
  command: CommandOf<'withdraw'>,
  env: Env,
): WithdrawPlan | RefusedOutcome {
  const signer = checkPayment(state, command)
  if (!signer.ok) return signer
  const { commitment, opening } = command
  const note = checkNote(state, { commitment, opening, owner: signer.text, mint: undefined })
  if (!note.ok) return note
  const mint = state.mints[note.note.mint]!
  if (note.note.amount < command.amount + mint.withdraw_fee) return refuse('collateral_insufficient')
  if (command.amount === 0n || command.amount < mint.min_withdraw) return refuse('withdraw_below_minimum')
  const busy = checkSubsystems(state, env) ?? checkKeyLimit(signer) ?? checkBacklog(state)
  return busy ?? { ok: true, signer, note, fee: mint.withdraw_fee }
}
