/** Decides and applies withdrawals and reshapes, and voids the ones that will not settle. */
import { type Amount, plus } from '../../../protocol/units'
import type { CommandOf } from '../../commands'
import { type Reshape, UNPAID, type Withdrawal } from '../state/batch'
import { holdAll } from '../state/note'
import { type Answer, type Effects, type Env, type RefusedOutcome, refuse } from '../state/outcome'
import type { State } from '../state/state'
import { reshapeView, withdrawalView } from '../state/views'
import {
  bindKey,
  checkBacklog,
  checkExpiry,
  checkKeyLimit,
  checkNonce,
  checkReopened,
  checkSigner,
  checkSubsystems,
  type Signer,
} from './checks'
import { checkNote, lockNote, type NoteFound, releaseNote } from './order_life'

type PaymentCommand = CommandOf<'withdraw' | 'reshape'>

/**
 * Refuses, in this order, `key_bound`, `account_suspended` of a reshape, `order_id_taken` or `order_exists` with the first result,
 * `nonce_stale`, `expiry_too_soon` and `expiry_too_far` (protocol.md "Order of checks").
 */
function checkPayment(state: State, command: PaymentCommand): Signer | RefusedOutcome {
  const signer = checkSigner(state, command.account_id, command.trading_key)
  if (!signer.ok) return signer
  if (command.kind === 'reshape' && signer.account.state !== 'active') return refuse('account_suspended')
  const refused =
    checkResend(state, command) ??
    checkNonce(signer.key, 'place_nonce', command.nonce) ??
    checkExpiry(state, command.expiry_slot, state.slot)
  return refused ?? signer
}

/** The id is a hash of the body, so a known id of the same kind is a resend. */
function checkResend(state: State, command: PaymentCommand): RefusedOutcome | undefined {
  const [kind, id] =
    command.kind === 'withdraw' ? ['withdrawal', command.withdrawal_id] : ['reshape', command.reshape_id]
  const known = state.settlement.payments.get(id.toHex())
  if (known === undefined) return undefined
  if (known.kind !== kind) return refuse('order_id_taken')
  return refuse('order_exists', { result: firstResult(state, known) })
}

/** The answer given when the payment was accepted. */
function firstResult(state: State, known: Withdrawal | Reshape) {
  const first = { status: 'accepted' as const, settlement_batch: 0, signature: undefined }
  if (known.kind === 'reshape')
    return reshapeView(state, { ...known, ...first, outputs: [] }, known.accepted_seq)
  return withdrawalView({ ...known, ...first, ...UNPAID, change: undefined }, known.accepted_seq)
}

type WithdrawPlan = { ok: true; signer: Signer; note: NoteFound; fee: Amount }

export function decideWithdraw(
  state: State,
  command: CommandOf<'withdraw'>,
  env: Env,
): WithdrawPlan | RefusedOutcome {
  const signer = checkPayment(state, command)
  if (!signer.ok) return signer
  const { commitment, opening } = command
  const note = checkNote(state, { commitment, opening, owner: signer.bytes, mint: undefined }, env)
  if (!note.ok) return note
  const mint = state.mints[note.note.mint]!
  if (note.note.amount < plus(command.amount, mint.withdraw_fee)) return refuse('collateral_insufficient')
  if (command.amount === 0n || command.amount < mint.min_withdraw) return refuse('withdraw_below_minimum')
  // A withdrawal takes money out of the venue: it may use the reserve of the disk.
  const exempt = env.unavailable === 'disk_full' ? {} : env
  const busy = checkSubsystems(state, exempt) ?? checkKeyLimit(signer) ?? checkBacklog(state)
  return busy ?? { ok: true, signer, note, fee: mint.withdraw_fee }
}

type ReshapePlan = { ok: true; signer: Signer; notes: NoteFound[] }

/** A reshape merges or splits notes of one key and mint; amounts in and out are equal. */
export function decideReshape(
  state: State,
  command: CommandOf<'reshape'>,
  env: Env,
): ReshapePlan | RefusedOutcome {
  const signer = checkPayment(state, command)
  if (!signer.ok) return signer
  const notes = checkInputs(state, command, signer, env)
  if (!Array.isArray(notes)) return notes
  const inside = notes.reduce((sum, found) => sum + found.note.amount, 0n)
  const wanted = command.amounts.reduce((sum, amount) => sum + amount, 0n)
  if (inside < wanted) return refuse('collateral_insufficient')
  if (inside > wanted) return refuse('reshape_invalid', { field: 'amounts' })
  const busy =
    checkReopened(state) ?? checkSubsystems(state, env) ?? checkKeyLimit(signer) ?? checkBacklog(state)
  return busy ?? { ok: true, signer, notes }
}

/** All inputs must have the mint of the first. */
function checkInputs(
  state: State,
  command: CommandOf<'reshape'>,
  signer: Signer,
  env: Env,
): NoteFound[] | RefusedOutcome {
  const notes: NoteFound[] = []
  for (const [at, commitment] of command.inputs.entries()) {
    const mint = notes[0]?.note.mint
    const opening = command.openings[at]
    const found = checkNote(state, { commitment, opening, owner: signer.bytes, mint }, env)
    if (!found.ok) return found
    notes.push(found)
  }
  return notes
}

export function applyWithdraw(
  state: State,
  fx: Effects,
  command: CommandOf<'withdraw'>,
  plan: WithdrawPlan,
): Answer {
  const terms = openPayment(state, command, plan.signer)
  const note = lockNote(state, plan.note)
  state.notes.hold(note)
  const withdrawal: Withdrawal = {
    ...terms,
    kind: 'withdrawal',
    withdrawal_id: command.withdrawal_id.toHex(),
    note,
    commitment: command.commitment,
    destination: command.destination,
    amount: command.amount,
    fee: plan.fee,
    change_anchor: command.change_anchor,
    change: undefined,
    refund_blinding: undefined,
    ...UNPAID,
  }
  const { account } = terms.key
  withdrawal.seq = fx.emit(account, 'withdrawal.accepted', (seq) => withdrawalView(withdrawal, seq))
  enqueue(state, withdrawal.withdrawal_id, withdrawal)
  return { kind: 'withdraw', result: withdrawalView(withdrawal) }
}

export function applyReshape(
  state: State,
  fx: Effects,
  command: CommandOf<'reshape'>,
  plan: ReshapePlan,
): Answer {
  const terms = openPayment(state, command, plan.signer)
  const inputs = plan.notes.map((found) => lockNote(state, found))
  holdAll(state.notes, inputs)
  const reshape: Reshape = {
    ...terms,
    kind: 'reshape',
    reshape_id: command.reshape_id.toHex(),
    inputs,
    commitments: command.inputs,
    amounts: command.amounts,
    anchor: command.anchor,
    outputs: [],
  }
  const { account } = terms.key
  reshape.seq = fx.emit(account, 'reshape.accepted', (seq) => reshapeView(state, reshape, seq))
  enqueue(state, reshape.reshape_id, reshape)
  return { kind: 'reshape', result: reshapeView(state, reshape) }
}

/** Binds the key, uses the nonce, and returns the initial fields that withdrawals and reshapes share. */
function openPayment(state: State, command: CommandOf<'withdraw' | 'reshape'>, signer: Signer) {
  const { nonce, expiry_slot } = command
  const key = bindKey(state, signer)
  key.place_nonce = nonce
  return {
    key,
    nonce,
    expiry_slot,
    accepted_slot: state.slot,
    status: 'accepted' as const,
    settlement_batch: 0,
    signature: undefined,
    accepted_seq: 0,
    seq: 0,
    ended_unix_ms: 0,
  }
}

/** Makes an accepted payment readable and queues it for a settlement batch. */
function enqueue(state: State, id: string, payment: Withdrawal | Reshape): void {
  payment.accepted_seq = payment.seq
  state.settlement.payments.set(id, payment)
  state.settlement.waiting.push(payment)
}

/** Ends a payment that will not settle; its unspent notes are free again. */
export function voidPayment(state: State, fx: Effects, payment: Withdrawal | Reshape): void {
  const { waiting } = state.settlement
  const at = waiting.indexOf(payment)
  if (at !== -1) waiting.splice(at, 1)
  payment.status = 'voided'
  payment.ended_unix_ms = state.unix_ms
  const { account } = payment.key
  if (payment.kind === 'withdrawal') {
    releaseNote(payment.note)
    payment.seq = fx.emit(account, 'withdrawal.voided', (seq) => withdrawalView(payment, seq))
  } else {
    payment.inputs.forEach(releaseNote)
    payment.seq = fx.emit(account, 'reshape.voided', (seq) => reshapeView(state, payment, seq))
  }
}
