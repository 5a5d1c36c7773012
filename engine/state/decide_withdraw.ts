/** Decides a withdrawal: part of a note, or all of it, to a token account. */
import type { CommandOf } from '../commands'
import { withdrawalView } from '../settlement/payment_view'
import { checkBacklog, checkKeyLimit, checkSubsystems } from './check_capacity'
import { checkExpiry } from './check_expiry'
import { checkNonce } from './check_nonce'
import { checkNote, type NoteFound } from './check_note'
import { checkSigner, type Signer } from './check_signer'
import { type Env, type RefusedOutcome, refuse } from './outcome'
import type { State } from './state'

export type WithdrawPlan = { ok: true; signer: Signer; note: NoteFound; fee: bigint }

export function decideWithdraw(
  state: State,
  command: CommandOf<'withdraw'>,
  env: Env,
): WithdrawPlan | RefusedOutcome {
  const signer = checkSigner(state, command.account_id, command.trading_key)
  if (!signer.ok) return signer
  if (signer.account.status === 'suspended') return refuse('account_suspended')
  const refused =
    checkResend(state, command) ??
    checkNonce(signer.key, 'place_nonce', command.nonce) ??
    checkExpiry(state, command.expiry_slot, state.slot)
  if (refused !== undefined) return refused
  const { commitment, opening } = command
  const note = checkNote(state, { commitment, opening, owner: signer.text, mint: undefined })
  if (!note.ok) return note
  const mint = state.mints[note.note.mint]!
  if (note.note.amount < command.amount + mint.withdraw_fee) return refuse('collateral_insufficient')
  if (command.amount === 0n || command.amount < mint.min_withdraw) return refuse('withdraw_below_minimum')
  const busy = checkSubsystems(state, env) ?? checkKeyLimit(signer) ?? checkBacklog(state)
  return busy ?? { ok: true, signer, note, fee: mint.withdraw_fee }
}

/** The id is a hash of the body, so a known id is the same command again. */
function checkResend(state: State, command: CommandOf<'withdraw'>): RefusedOutcome | undefined {
  const known = state.settlement.payments.get(command.withdrawal_id.toHex())
  if (known === undefined) return undefined
  if (known.kind !== 'withdrawal') return refuse('order_id_taken')
  const first = { ...known, status: 'accepted' as const, settlement_batch: 0, signature: undefined }
  const result = withdrawalView(
    { ...first, change: undefined, refund_commitment: undefined },
    known.accepted_seq,
  )
  return refuse('order_exists', { result })
}
