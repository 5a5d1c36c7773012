/** Defines the venue data that intake reads, its result (a command with the signatures to verify), and the opening of notes. */
import type { SignedMessage } from '../../native/load_ed25519'
import { concatBytes, equalBytes } from '../../protocol/bytes'
import { nullifierOf, openingCommitment } from '../../protocol/notes/notes'
import { Refusal, type RefusalCode } from '../../protocol/refusals'
import { type BaseUnits, feeUpTo, type Price, plus, quoteAmount, U64_MAX } from '../../protocol/units'
import type { CheckRequest, Instrument, NoteOpening } from '../../protocol/wire/trading'
import type { Parsed } from '../../protocol/wire/values'
import type { CommandBody, NoteFact } from '../commands'
import { TICK_MAX } from '../machine/book/book'
import { indexOf, type Past } from '../machine/state/past'
import type { State } from '../machine/state/state'

/** The numbers of an instrument, parsed once at load. */
export type InstrumentRules = {
  lot_size: BaseUnits
  tick_size: Price
  /** Highest price of the book. */
  max_price: Price
  min_amount: BaseUnits
  max_amount: BaseUnits
  base_decimals: number
  fee_bps: number
}

function rulesOf(instrument: Omit<Instrument, 'status'>): InstrumentRules {
  return {
    lot_size: BigInt(instrument.lot_size),
    tick_size: BigInt(instrument.tick_size),
    max_price: BigInt(instrument.tick_size) * BigInt(TICK_MAX),
    min_amount: BigInt(instrument.min_amount),
    max_amount: BigInt(instrument.max_amount),
    base_decimals: instrument.base_decimals,
    fee_bps: instrument.fee_bps,
  }
}

/**
 * Refuses `amount_out_of_range`, `amount_off_lot`, `price_zero`, `price_off_tick`, `value_overflow` and
 * `min_fill_invalid` (protocol.md "Instruments", matching.md "Intake" rule 1). `at` prefixes field names.
 */
export function checkInstrumentRules(
  { type, amount, price_limit, min_fill = 0n }: Parsed<typeof CheckRequest>,
  rules: InstrumentRules,
  at = '',
): void {
  if (amount < rules.min_amount || amount > rules.max_amount)
    throw refused('amount_out_of_range', at, 'amount')
  if (amount % rules.lot_size !== 0n) throw refused('amount_off_lot', at, 'amount')
  if (price_limit === 0n) throw refused('price_zero', at, 'price_limit')
  if (price_limit % rules.tick_size !== 0n) throw refused('price_off_tick', at, 'price_limit')
  const quote = quoteAmount(amount, price_limit, rules.base_decimals)
  if (plus(quote, feeUpTo(quote, rules.fee_bps)) > U64_MAX || price_limit > rules.max_price) {
    throw refused('value_overflow', at, 'price_limit')
  }
  if (min_fill === 0n) return
  if (min_fill > amount || min_fill % rules.lot_size !== 0n) throw refused('min_fill_invalid', at, 'min_fill')
  if (type === 'fok' && min_fill !== amount) throw refused('min_fill_invalid', at, 'min_fill')
}

const refused = (code: RefusalCode, at: string, field: string) => new Refusal(code, { field: at + field })

/** Decides whether an opening can matter. */
export type KnownNotes = { state: State; past: Past }

export type Intake = {
  /** The venue id that every signed body carries. */
  venue: Uint8Array
  rules: ReadonlyMap<string, InstrumentRules>
  known: KnownNotes
}

/** A client command that keeps the public rules, whose signatures are not verified yet. */
export type Signed<C extends CommandBody> = {
  /** Canonical bodies with their signatures: each must verify before `command` is called. */
  claims: readonly SignedMessage[]
  /** Builds the command and opens its notes against the current state: call it after verification, right before execution. */
  command: () => C
  /** Canonical body and its signature; concatenated when a command carries several (protocol/bodies/statements.ts). */
  body_and_signature: Uint8Array
}

export function intakeOf(
  venue: Uint8Array,
  instruments: readonly Omit<Instrument, 'status'>[],
  known: KnownNotes,
): Intake {
  return { venue, known, rules: new Map(instruments.map((one) => [one.symbol, rulesOf(one)])) }
}

type ByTradingKey = { signature: Uint8Array; trading_key: Uint8Array }
export const claimOf = ({ signature, trading_key }: ByTradingKey, message: Uint8Array): SignedMessage => ({
  signature,
  message,
  public_key: trading_key,
})

/** A command that one or more keys signed, each its own body. */
export function signedBy<C extends CommandBody>(
  claims: readonly SignedMessage[],
  command: () => C,
): Signed<C> {
  const parts: Uint8Array[] = []
  for (const { message, signature } of claims) parts.push(message, signature)
  return { claims, command, body_and_signature: concatBytes(...parts) }
}

/** Refuses `instrument_unknown`. */
export function rulesFor(intake: Intake, symbol: string): InstrumentRules {
  const rules = intake.rules.get(symbol)
  if (rules === undefined) throw new Refusal('instrument_unknown')
  return rules
}

/**
 * The facts of an opening for the signing key (protocol.md "Notes"). Costs about five Poseidon hashes, a millisecond, so
 * it skips known notes of this key and notes without a finalized leaf, which stay unknown either way. For a note of another
 * key the work is the same whether or not the venue knows it.
 * @param wanted commitment that the signed body names
 */
export function openNote(
  known: KnownNotes,
  wanted: Uint8Array,
  opening: Parsed<typeof NoteOpening> | null | undefined,
  owner: Uint8Array,
): NoteFact | undefined {
  if (!opening || isOwn(known, wanted, owner)) return undefined
  const leaf = indexOf(known.state, known.past, 'leaves', wanted)
  if (leaf === undefined || (opening.leaf_index ?? leaf) !== leaf) return undefined
  const commitment = openingCommitment({ owner, ...opening })
  return { ...opening, commitment, nullifier: nullifierOf(commitment, opening.blinding), leaf }
}

function isOwn({ state: { notes } }: KnownNotes, wanted: Uint8Array, owner: Uint8Array): boolean {
  const note = notes.find(wanted)
  return note !== undefined && equalBytes(note.owner, owner)
}
