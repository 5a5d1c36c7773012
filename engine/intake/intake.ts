/** What every intake needs to know of the venue, and the one signature check they share. */
import { verifySignature } from '../../protocol/ed25519'
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

/** Refuses `signature_invalid` unless `trading_key` signed exactly `body` (protocol.md "Signature rule"). */
export function requireSignature(signature: Uint8Array, body: Uint8Array, trading_key: Uint8Array): void {
  if (!verifySignature(signature, body, trading_key)) throw new Refusal('signature_invalid')
}
