/** Names the units of the venue as types and computes exact money: u64 decimal strings, quote amounts, cumulative fees. */

/**
 * A number that carries its unit in its type alone. A value of one unit is not assignable to another, so two arguments
 * cannot be swapped. A plain number is assignable to each: a field or parameter names the unit where a value is parsed,
 * decoded or computed, without a cast.
 */
type Unit<Value, Name> = Value & { readonly unit?: Name }

/** An amount in smallest units of a mint. */
export type Amount = Unit<bigint, { amount: true }>
/** An amount of the base mint, or of the quote mint, of an instrument. */
export type BaseUnits = Unit<bigint, { amount: true; base: true }>
export type QuoteUnits = Unit<bigint, { amount: true; quote: true }>
/** Quote units per whole base token. */
export type Price = Unit<bigint, 'price'>
/** Multiples of an instrument's lot size, and of its tick size: safe integers. */
export type Lots = Unit<number, 'lots'>
export type Ticks = Unit<number, 'ticks'>
/** A slot of the chain. */
export type SlotNumber = Unit<number, 'slot'>
/** Position of a record in the journal, and of an event among those of its account: both count from 1. */
export type JournalSeq = Unit<number, 'journal_seq'>
export type EventSeq = Unit<number, 'event_seq'>

export const U64_MAX = 0xffff_ffff_ffff_ffffn
/** Of the decimals a mint may have. */
const POWERS_OF_TEN = Array.from({ length: 20 }, (_, decimals) => 10n ** BigInt(decimals))
const CANONICAL = /^(0|[1-9][0-9]{0,19})$/

/** Parses a canonical decimal string below 2^64; undefined for a sign, leading zero, exponent or overflow. */
export function parseU64(text: string): bigint | undefined {
  if (!CANONICAL.test(text)) return undefined
  const value = BigInt(text)
  return value <= U64_MAX ? value : undefined
}

/**
 * `amount * price / 10^base_decimals` in quote units. Exact for amounts on lot and prices on tick, because an instrument
 * loads only when `lot_size * tick_size` is a multiple of `10^base_decimals` (protocol.md "Instruments").
 * @throws RangeError when the division leaves a remainder.
 */
export function quoteAmount(amount: BaseUnits, price: Price, base_decimals: number): QuoteUnits {
  const scale = POWERS_OF_TEN[base_decimals] ?? 10n ** BigInt(base_decimals)
  const product = amount * price
  if (product % scale !== 0n) throw new RangeError('amount off lot or price off tick')
  return product / scale
}

/**
 * Fee due on everything an order has traded so far: `ceil(cumulative_quote * fee_bps / 10_000)`. A fill is charged this
 * less the fees the order was charged before, so the fee at the limit always covers all fills.
 */
export function feeUpTo(cumulative_quote: QuoteUnits, fee_bps: number): QuoteUnits {
  return (cumulative_quote * BigInt(fee_bps) + 9_999n) / 10_000n
}

/** The sum and the difference of two amounts of one mint. */
export function plus<A extends Amount>(one: A, other: A): A {
  return ((one as bigint) + other) as A
}
export function minus<A extends Amount>(one: A, other: A): A {
  return ((one as bigint) - other) as A
}

/** A place between two groups: seq of the last record so far, 0 for none, and the chain head after it (32 bytes). */
export type ChainPoint = { seq: JournalSeq; head: Uint8Array }
