/** Decides a modify command: cancel the old order and place the new one, both or neither. */
import { equalBytes } from '../../protocol/bytes'
import type { CommandOf, PlaceFields } from '../commands'
import { checkNonce } from './check_nonce'
import { checkSigner } from './check_signer'
import { findCancellable } from './decide_cancel'
import { decideOrder, type PlacePlan } from './decide_place'
import type { Order } from './order'
import { placeAnswer } from './order_view'
import { type Env, type RefusedOutcome, refuse } from './outcome'
import type { State } from './state'

export type ModifyPlan = {
  ok: true
  old: Order
  place: PlacePlan
  /** A pure reduction keeps the age of the old order (matching.md rule 3). */
  keeps_age: boolean
}

export function decideModify(
  state: State,
  command: CommandOf<'modify'>,
  env: Env,
): ModifyPlan | RefusedOutcome {
  const { cancel, replacement } = command
  const signer = checkSigner(state, command.account_id, replacement.trading_key)
  if (!signer.ok) return signer
  if (signer.account.status === 'suspended') return refuse('account_suspended')
  const resend = checkResend(state, replacement)
  if (resend !== undefined) return resend
  const found = findCancellable(state, cancel, signer)
  if (!found.ok) return found
  const { order: old } = found
  const stale = checkNonce(signer.key, 'place_nonce', replacement.nonce)
  if (stale !== undefined) return stale
  const place = decideOrder(state, replacement, signer, env, old)
  if (!place.ok) return place
  return { ok: true, old, place, keeps_age: isReduction(old, place, replacement) }
}

/** The digest of a modify covers both bodies, so only the same modify is a resend. */
function checkResend(state: State, replacement: PlaceFields): RefusedOutcome | undefined {
  const known = state.orders.find(replacement.order_id) ?? state.finals.find(replacement.order_id)
  if (known === undefined) return undefined
  if (known.digest !== replacement.digest.toHex()) return refuse('order_id_taken')
  return refuse('order_exists', { result: { old_order_id: known.replaces, ...placeAnswer(known) } })
}

function isReduction(old: Order, place: PlacePlan, replacement: PlaceFields): boolean {
  const commitment = old.collateral.commitment_bytes
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
