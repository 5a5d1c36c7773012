/** Defines instruments: terms in integers, order book, reference, batch number, status. */
import type { BaseUnits, Lots, Price, QuoteUnits, SlotNumber, Ticks } from '../../../protocol/units'
import type { Instrument, InstrumentStatus, PriceRule, ReferencePolicy } from '../../../protocol/wire/trading'
import { type Book, TICK_MAX } from '../book/book'
import { type State, settingsOf } from './state'

/** The configured terms of an instrument. */
export type InstrumentTerms = {
  readonly symbol: string
  /** Index of the mint in `State.mints`. */
  readonly base: number
  readonly quote: number
  readonly base_decimals: number
  readonly lot_size: BaseUnits
  readonly tick_size: Price
  /** Value of one lot in quote units per tick of price: exact by the load rule. */
  readonly quote_per_lot_tick: bigint
  readonly batch_slots: number
  readonly collar_bps: number
  readonly fee_bps: number
  readonly initial_reference_ticks: Ticks
  readonly reference_policy: ReferencePolicy
  readonly price_rule: PriceRule
  readonly volume_tolerance_bps: number
}

export type InstrumentState = {
  /** Position in the configuration. */
  readonly index: number
  terms: InstrumentTerms
  status: InstrumentStatus
  /** In ticks; undefined = none usable yet (oracle). */
  reference_ticks: Ticks | undefined
  /** Publication time of the oracle price; 0 under policy `last`. */
  reference_unix_ms: number
  /** Name of the oracle source; empty under policy `last`. */
  reference_source: string
  /** Number of the next batch to close. */
  next_batch: number
  /** Orders live in `book`. */
  live: number
  book: Book
}

/** Instruments must be added in the order of their index. */
export function addInstrument(state: State, instrument: InstrumentState): void {
  state.instruments.set(instrument.terms.symbol, instrument)
  state.instrument_list.push(instrument)
}

/**
 * The first slot after `slot` at which a close is scheduled, for all instruments alike: a multiple of `batch_slots`, after
 * the time without new orders that follows a stall.
 */
export function nextClose(state: State, slot: SlotNumber): SlotNumber {
  const { batch_slots } = settingsOf(state).instruments[0]!
  const after = Math.max(slot, state.reopens_slot)
  return after + batch_slots - (after % batch_slots)
}

export function termsOf(
  config: Omit<Instrument, 'status'>,
  mintIndex: (mint: string) => number,
): InstrumentTerms {
  const lot_size = BigInt(config.lot_size)
  const tick_size = BigInt(config.tick_size)
  return {
    symbol: config.symbol,
    base: mintIndex(config.base_mint),
    quote: mintIndex(config.quote_mint),
    base_decimals: config.base_decimals,
    lot_size,
    tick_size,
    quote_per_lot_tick: (lot_size * tick_size) / 10n ** BigInt(config.base_decimals),
    batch_slots: config.batch_slots,
    collar_bps: config.collar_bps,
    fee_bps: config.fee_bps,
    initial_reference_ticks: Number(BigInt(config.initial_reference) / tick_size),
    reference_policy: config.reference_policy,
    price_rule: config.price_rule,
    volume_tolerance_bps: config.volume_tolerance_bps,
  }
}

/** Amount in base units of a number of lots. */
export function baseOf(terms: InstrumentTerms, lots: Lots): BaseUnits {
  return BigInt(lots) * terms.lot_size
}

/** Exact value in quote units of lots at a price in ticks. */
export function quoteOf(terms: InstrumentTerms, lots: Lots, ticks: Ticks): QuoteUnits {
  return BigInt(lots) * BigInt(ticks) * terms.quote_per_lot_tick
}

/** Lots of an amount on lot, rounded down. */
export function lotsOf(terms: InstrumentTerms, amount: BaseUnits): Lots {
  return Number(amount / terms.lot_size)
}

/** Ticks of a price on tick, rounded down. */
export function ticksOf(terms: InstrumentTerms, price: Price): Ticks {
  return Number(price / terms.tick_size)
}

export function priceOf(terms: InstrumentTerms, ticks: Ticks): Price {
  return BigInt(ticks) * terms.tick_size
}

/** @throws Error for an unknown symbol, which intake rejects as `instrument_unknown` */
export function instrumentOf(state: State, symbol: string): InstrumentState {
  const instrument = state.instruments.get(symbol)
  if (instrument === undefined) throw new Error('a command names an unknown instrument')
  return instrument
}

/** An oracle's price rounded to the nearest tick, half down; undefined outside the ticks of a book. */
export function referenceTicks({ tick_size }: InstrumentTerms, price: Price): Ticks | undefined {
  const below = price / tick_size
  const rest = price % tick_size
  const ticks = Number(rest * 2n > tick_size ? below + 1n : below)
  return ticks >= 1 && ticks <= TICK_MAX ? ticks : undefined
}
