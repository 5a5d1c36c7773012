/** Checks an order against the public rules of its instrument, in the order of checks. */
import { Refusal, type RefusalCode } from '../../protocol/refusals'
import { type BaseUnits, feeUpTo, type Price, plus, quoteAmount, U64_MAX } from '../../protocol/units'
import type { CheckRequest, Instrument } from '../../protocol/wire/trading'
import type { Parsed } from '../../protocol/wire/values'
import { TICK_MAX } from '../machine/book/book'

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

export function rulesOf(instrument: Omit<Instrument, 'status'>): InstrumentRules {
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
  const refuse = (code: RefusalCode, field: string): never => {
    throw new Refusal(code, { field: at + field })
  }
  if (amount < rules.min_amount || amount > rules.max_amount) refuse('amount_out_of_range', 'amount')
  if (amount % rules.lot_size !== 0n) refuse('amount_off_lot', 'amount')
  if (price_limit === 0n) refuse('price_zero', 'price_limit')
  if (price_limit % rules.tick_size !== 0n) refuse('price_off_tick', 'price_limit')
  const quote = quoteAmount(amount, price_limit, rules.base_decimals)
  if (plus(quote, feeUpTo(quote, rules.fee_bps)) > U64_MAX || price_limit > rules.max_price) {
    refuse('value_overflow', 'price_limit')
  }
  if (min_fill > amount || min_fill % rules.lot_size !== 0n) refuse('min_fill_invalid', 'min_fill')
  if (type === 'fok' && min_fill !== 0n && min_fill !== amount) refuse('min_fill_invalid', 'min_fill')
}
