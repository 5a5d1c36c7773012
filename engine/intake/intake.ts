/** What every intake needs to know of the venue. */
import { Refusal } from '../../protocol/refusals'
import type { Instrument } from '../../protocol/wire'
import { type InstrumentRules, rulesOf } from './check_instrument_rules'
import type { KnownNotes } from './open_note'

export type Intake = {
  /** The venue id every signed body carries. */
  venue: Uint8Array
  rules: ReadonlyMap<string, InstrumentRules>
  known: KnownNotes
}

export function intakeOf(
  venue: Uint8Array,
  instruments: readonly Omit<Instrument, 'status'>[],
  known: KnownNotes,
): Intake {
  return { venue, known, rules: new Map(instruments.map((one) => [one.symbol, rulesOf(one)])) }
}

/** Refuses `instrument_unknown`. */
export function rulesFor(intake: Intake, symbol: string): InstrumentRules {
  const rules = intake.rules.get(symbol)
  if (rules === undefined) throw new Refusal('instrument_unknown')
  return rules
}
