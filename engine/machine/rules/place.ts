/** Decides and applies place and modify commands. */
import { equalBytes } from '../../../protocol/bytes'
import { feeUpTo, type Lots, plus, type Ticks } from '../../../protocol/units'
import type { CommandOf, PlaceFields } from '../../commands'
import { TICK_MAX } from '../book/book'
import { crossesOwn } from '../state/account'
import { isMember, type WaitingModify } from '../state/closed'
import {
  baseOf,
  type InstrumentState,
  instrumentOf,
  lotsOf,
  nextClose,
  quoteOf,
  ticksOf,
} from '../state/instrument'
import type { FinalOrder } from '../state/live_orders'
import type { Order } from '../state/order'
import { type Answer, type Effects, type Env, type RefusedOutcome, refuse, UNREAD } from '../state/outcome'
import type { State } from '../state/state'
import { placeAnswer } from '../state/views'
import { announceWaiting, finalOf, findCancellable } from './cancel'
import {
  checkBacklog,
  checkExpiry,
  checkKeyLimit,
  checkNonce,
  checkOrderLimit,
  checkReopened,
  checkSigner,
  checkSubsystems,
  checkWaiting,
  type Signer,
} from './checks'
import { checkNote, endOrder, lockNote, type NoteFound, openOrder, releaseNote } from './order_life'

/** The input of applying an accepted place. */
export type PlacePlan = {
  ok: true
  signer: Signer
  instrument: InstrumentState
  lots: Lots
  ticks: Ticks
  min_lots: Lots
  note: NoteFound
}

/** The request is parsed, and intake has checked instrument rules and signature (protocol.md "Order of checks"). */
export function decidePlace(state: State, command: CommandOf<'place'>, env: Env): PlacePlan | RefusedOutcome {
  const signer = checkSigner(state, command.account_id, command.trading_key)
  if (!signer.ok) return signer
  if (signer.account.state !== 'active') return refuse('account_suspended')
  return (
    checkResend(state, command, signer, placeAnswer, env) ??
    checkNonce(signer.key, 'place_nonce', command.nonce) ??
    decideOrder(state, command, signer, env)
  )
}

/**
 * An id is used once: an identical command is answered with its first result, another one with `order_id_taken`. The digest
 * of a modify covers both of its bodies, so only an identical modify is a resend.
 */
function checkResend(
  state: State,
  { order_id, digest, nonce }: PlaceFields,
  { key }: Signer,
  resultOf: (known: Order | FinalOrder) => object,
  { past }: Env,
): RefusedOutcome | undefined {
  const creating = state.closed?.creating(order_id)
  if (creating !== undefined) {
    const same = equalBytes(creating.command.replacement.digest, digest)
    return same ? { ...refuse('order_exists'), number: creating.number } : refuse('order_id_taken')
  }
  // The nonce of a resend is never fresh, so a new order costs no look at the stores.
  const resent = checkNonce(key, 'place_nonce', nonce) !== undefined
  const known = state.orders.find(order_id) ?? finalOf(state, resent ? past : undefined, order_id)
  if (known === undefined) return undefined
  if (!equalBytes(known.digest, digest)) return refuse('order_id_taken')
  return refuse('order_exists', { result: resultOf(known) })
}

/** The checks that a place and the replacement of a modify share, from the expiry on. `old` is the replaced order. */
function decideOrder(
  state: State,
  body: PlaceFields,
  signer: Signer,
  env: Env,
  old?: Order,
): PlacePlan | RefusedOutcome {
  const instrument = instrumentOf(state, body.symbol)
  const { terms } = instrument
  const ticks = ticksOf(terms, body.price_limit)
  const lots = lotsOf(terms, body.amount)
  const expiry = checkExpiry(state, body.expiry_slot, nextClose(state, state.slot))
  if (expiry !== undefined) return expiry
  const wanted = {
    commitment: body.collateral_commitment,
    opening: body.opening,
    owner: signer.bytes,
    mint: body.side === 'buy' ? terms.quote : terms.base,
    released: old?.collateral,
  }
  const note = checkNote(state, wanted, env)
  if (!note.ok) return note
  const quote = quoteOf(terms, lots, ticks)
  const needed = body.side === 'buy' ? plus(quote, feeUpTo(quote, terms.fee_bps)) : baseOf(terms, lots)
  if (note.note.amount < needed) return refuse('collateral_insufficient')
  if (crossesOwn(signer.account, instrument, body.side, ticks, old)) return refuse('self_cross')
  const refused =
    checkInstrumentOpen(instrument) ??
    checkReopened(state) ??
    checkSubsystems(state, env) ??
    checkOrderLimit(signer, old === undefined ? 0 : 1) ??
    checkKeyLimit(signer) ??
    checkBacklog(state)
  if (refused !== undefined) return refused
  if (ticks > TICK_MAX) throw new Error('a limit price is beyond the bound of intake')
  const min_lots = lotsOf(terms, body.min_fill)
  return { ok: true, signer, instrument, lots, ticks, min_lots, note }
}

function checkInstrumentOpen(instrument: InstrumentState): RefusedOutcome | undefined {
  return instrument.status === 'active' ? undefined : refuse('instrument_paused')
}

type ModifyPlan = {
  ok: true
  old: Order
  place: PlacePlan
  /** A pure reduction keeps the age of the old order (matching.md rule 3). */
  keeps_age: boolean
}

/** Cancels the old order and places the new one, both or neither; for a member of a closed batch after its decision. */
export function decideModify(
  state: State,
  command: CommandOf<'modify'>,
  env: Env,
): ModifyPlan | RefusedOutcome {
  const { cancel, replacement } = command
  const signer = checkSigner(state, command.account_id, replacement.trading_key)
  if (!signer.ok) return signer
  if (signer.account.state !== 'active') return refuse('account_suspended')
  const answerOf = (known: Order | FinalOrder) => ({ old_order_id: known.replaces, ...placeAnswer(known) })
  const resend = checkResend(state, replacement, signer, answerOf, env)
  if (resend !== undefined) return resend
  const found = findCancellable(state, cancel, signer, env)
  if (!found.ok) return found
  const { order: old } = found
  const refused =
    checkNonce(signer.key, 'place_nonce', replacement.nonce) ??
    (isMember(old) ? checkWaiting(state, signer.account) : undefined)
  return refused ?? decideReplacement(state, replacement, signer, env, old)
}

function decideReplacement(
  state: State,
  replacement: PlaceFields,
  signer: Signer,
  env: Env,
  old: Order,
): ModifyPlan | RefusedOutcome {
  const place = decideOrder(state, replacement, signer, env, old)
  if (!place.ok) return place
  return { ok: true, old, place, keeps_age: isReduction(old, place, replacement) }
}

function isReduction(old: Order, place: PlacePlan, replacement: PlaceFields): boolean {
  const commitment = old.collateral.commitment
  return (
    old.instrument === place.instrument &&
    old.side === replacement.side &&
    old.type === replacement.type &&
    old.ticks === place.ticks &&
    old.min_lots === place.min_lots &&
    old.expiry_slot === replacement.expiry_slot &&
    place.lots < old.remaining &&
    commitment !== undefined &&
    equalBytes(commitment, replacement.collateral_commitment)
  )
}

export function applyPlace(state: State, fx: Effects, command: CommandOf<'place'>, plan: PlacePlan): Answer {
  const order = openOrder(state, fx, command, plan, { origin: command.origin })
  return fx.kept ? { kind: 'place', result: placeAnswer(order) } : UNREAD
}

export function applyModify(
  state: State,
  fx: Effects,
  command: CommandOf<'modify'>,
  plan: ModifyPlan,
): Answer {
  const { old } = plan
  const { key } = old
  key.cancel_nonce = command.cancel.cancel_nonce
  if (!isMember(old)) return replace(state, fx, command, plan)
  key.place_nonce = command.replacement.nonce
  const { note: found } = plan.place
  const reserves = found.fresh || !found.note.is(old.collateral)
  const note = reserves ? lockNote(state, found) : undefined
  if (note !== undefined) state.notes.hold(note)
  const batch = old.instrument.next_batch - 1
  const seq = announceWaiting(fx, old, 'replace')
  const number = state.closed!.nextNumber()
  state.closed!.defer({ kind: 'modify', number, key, command, note })
  const order_id = command.replacement.order_id.toHex()
  const result = { old_order_id: old.order_id, order_id, status: 'replace_pending' as const, batch, seq }
  return { kind: 'modify', number, result }
}

/** The effect of a deferred modify on the rest of the old order after the match, or the code of its rejection. */
export function applyWaitingModify(
  state: State,
  fx: Effects,
  { key, command, note }: WaitingModify,
): Answer | RefusedOutcome {
  if (note !== undefined) {
    releaseNote(note)
    state.notes.drop(note)
  }
  const { cancel, replacement } = command
  const signer: Signer = { ok: true, account: key.account, text: key.text, bytes: key.bytes, key }
  // The nonces were used when the command arrived.
  const found = findCancellable(state, { ...cancel, cancel_nonce: key.cancel_nonce + 1n }, signer, {})
  if (!found.ok) return found
  const plan = decideReplacement(state, replacement, signer, {}, found.order)
  return plan.ok ? replace(state, fx, command, plan) : plan
}

function replace(state: State, fx: Effects, command: CommandOf<'modify'>, plan: ModifyPlan): Answer {
  const { old, place, keeps_age } = plan
  const { replacement, origin } = command
  const { order_id: replaces } = command.cancel
  const arrival_batch = keeps_age ? old.arrival_batch : undefined
  endOrder(state, fx, old, {
    status: 'cancelled',
    reason: 'replaced',
    replaced_by: replacement.order_id.toHex(),
  })
  const order = openOrder(state, fx, replacement, place, { origin, replaces, arrival_batch })
  return { kind: 'modify', result: { old_order_id: replaces.toHex(), ...placeAnswer(order) } }
}
