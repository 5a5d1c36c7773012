/** Defines the venue data that intake reads, and its result: a command with the signatures to verify. */
import { Refusal } from '../../protocol/refusals'
import type { Instrument } from '../../protocol/wire/trading'
import type { CommandBody } from '../commands'
import { type InstrumentRules, rulesOf } from './instrument_rules'
import type { KnownNotes } from './opening'

export type Intake = {
  /** The venue id that every signed body carries. */
  venue: Uint8Array
  rules: ReadonlyMap<string, InstrumentRules>
  known: KnownNotes
}

/** A client command of valid form whose signatures are not verified yet. */
export type Signed<C extends CommandBody> = {
  /** Every claim must be verified before `command` is called. */
  claims: readonly Claim[]
  /** Builds the command and opens its notes against the current state: call it after verification, right before execution. */
  command: () => C
  /** Canonical body and its signature; concatenated when a command carries several (protocol/bodies/receipt.ts). */
  body_and_signature: Uint8Array
}

/** The claim that `trading_key` (32 bytes) signed exactly `body`; the signature has 64 bytes. */
export type Claim = { signature: Uint8Array; body: Uint8Array; trading_key: Uint8Array }

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
