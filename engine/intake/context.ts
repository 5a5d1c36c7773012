/** What each intake reads of the venue, and the command it returns with its signature claims. */
import { Refusal } from '../../protocol/refusals'
import type { Instrument } from '../../protocol/wire/trading'
import type { CommandBody } from '../commands'
import { type InstrumentRules, rulesOf } from './instrument_rules'
import type { KnownNotes } from './opening'

// What every intake needs to know of the venue.

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

// A client command whose form holds: what its signer claims, and the command those signatures make of it.

/** That `trading_key` signed exactly `body`; 64, any and 32 bytes. */
export type Claim = { signature: Uint8Array; body: Uint8Array; trading_key: Uint8Array }

export type Signed<C extends CommandBody> = {
  /** Must all hold before `command` is asked for. */
  claims: readonly Claim[]
  /** With the facts of its openings: a note is opened for nobody who did not sign, and against the state of that moment. */
  command: () => C
  /** Canonical body and its signature; several in a row where a command carries several (protocol/bodies/receipt.ts). */
  body_and_signature: Uint8Array
}
