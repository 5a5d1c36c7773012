/** POST /orders/check: every check of a place that depends on nothing hidden; books nothing. */
import { Refusal, type RefusalCode } from '../../protocol/refusals'
import { checkExpiry } from '../state/check_expiry'
import { nextClose } from '../state/instrument'
import { instrumentOf } from '../state/instrument_of'
import type { State } from '../state/state'
import { checkInstrumentRules } from './check_instrument_rules'
import { type Intake, rulesFor } from './intake'
import { readOrder } from './read_place'

/**
 * Form, instrument, its rules, expiry, its status, then whether the venue takes orders (`unavailable`), in the order of
 * checks. Says nothing of keys, notes, nonces or other orders.
 */
export function checkOrder(
  intake: Intake,
  state: State,
  unavailable: RefusalCode | undefined,
  value: unknown,
): void {
  const form = readOrder(value)
  checkInstrumentRules(form, rulesFor(intake, form.symbol))
  const instrument = instrumentOf(state, form.symbol)
  const refused = checkExpiry(state, form.expiry_slot, nextClose(instrument, state.slot))
  if (refused !== undefined) throw new Refusal(refused.code, refused.facts)
  if (instrument.status !== 'active') throw new Refusal('instrument_paused')
  if (unavailable !== undefined) throw new Refusal(unavailable)
}
