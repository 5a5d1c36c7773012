/** How near and how far an expiry slot may lie. */
import { type RefusedOutcome, refuse } from './outcome'
import { type State, settingsOf } from './state'

/** Refuses `expiry_too_soon` before `first_slot` and `expiry_too_far` beyond the longest life of an order. */
export function checkExpiry(
  state: State,
  expiry_slot: number,
  first_slot: number,
): RefusedOutcome | undefined {
  if (expiry_slot < first_slot) return refuse('expiry_too_soon')
  if (expiry_slot > state.slot + settingsOf(state).order_life_slots_max) return refuse('expiry_too_far')
  return undefined
}
