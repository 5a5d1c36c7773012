/** Exact money as people write it: decimal texts to and from base units and prices. Nothing is ever rounded. */
import { TacitError } from '../../protocol/tacit_error'
import { type Amount, type BaseUnits, type Price, U64_MAX } from '../../protocol/units'
import type { Instrument } from '../../protocol/wire/trading'

/** The text has no exact value in the units asked for; the message says why and names no other value. */
export class InexactValue extends TacitError {
  override readonly name = 'InexactValue'
  readonly code = 'inexact_value'
  constructor(finding: string) {
    super(finding, {})
  }
}

/** Digits, and perhaps a point with digits after it: no sign, exponent, separator or leading zero. */
const DECIMAL = /^(0|[1-9][0-9]{0,38})(?:\.([0-9]{1,38}))?$/

/**
 * Base units of a mint. @param text whole tokens, as `1.5` @param decimals of the mint
 * @throws InexactValue for another form, more decimals than the mint has, or more than 64 bits
 */
export function parseAmount(text: string, decimals: number): Amount {
  return exactly(text, decimals)
}

function exactly(text: string, decimals: number): bigint {
  const [matched, whole = '', fraction = ''] = DECIMAL.exec(text) ?? []
  if (matched === undefined) throw new InexactValue('a decimal number as 12 or 0.5 is expected')
  const kept = fraction.replace(/0+$/, '')
  if (kept.length > decimals) throw new InexactValue(`there are at most ${decimals} decimals`)
  const value = BigInt(whole + kept.padEnd(decimals, '0'))
  if (value > U64_MAX) throw new InexactValue('the value exceeds 64 bits')
  return value
}

/** The shortest text that `parseAmount` reads as `amount`. */
export function formatAmount(amount: Amount, decimals: number): string {
  return shortest(amount, decimals)
}

function shortest(amount: bigint, decimals: number): string {
  const digits = String(amount).padStart(decimals + 1, '0')
  const whole = digits.slice(0, digits.length - decimals)
  const fraction = digits.slice(digits.length - decimals).replace(/0+$/, '')
  return fraction === '' ? whole : `${whole}.${fraction}`
}

type Sizes = Pick<
  Instrument,
  'base_decimals' | 'quote_decimals' | 'lot_size' | 'tick_size' | 'min_amount' | 'max_amount'
>

/** Base units of an order. @param text base tokens @throws InexactValue, also off lot or outside the instrument's limits */
export function parseOrderAmount(instrument: Sizes, text: string): BaseUnits {
  const amount: BaseUnits = exactly(text, instrument.base_decimals)
  requireLots(instrument, amount)
  return amount
}

/** @throws InexactValue off lot or outside the instrument's limits */
export function requireLots({ lot_size, min_amount, max_amount, ...of }: Sizes, amount: BaseUnits): void {
  const shown = (units: string) => formatAmount(BigInt(units), of.base_decimals)
  if (amount % BigInt(lot_size) !== 0n)
    throw new InexactValue(`the amount is not a multiple of ${shown(lot_size)}`)
  if (amount < BigInt(min_amount) || amount > BigInt(max_amount))
    throw new InexactValue(`the amount is not within ${shown(min_amount)} and ${shown(max_amount)}`)
}

/** Quote units per whole base token. @param text quote tokens per base token @throws InexactValue, also off tick or zero */
export function parsePrice(instrument: Sizes, text: string): Price {
  const price: Price = exactly(text, instrument.quote_decimals)
  requireTicks(instrument, price)
  return price
}

/** @throws InexactValue off tick or zero */
export function requireTicks({ tick_size, quote_decimals }: Sizes, price: Price): void {
  if (price <= 0n) throw new InexactValue('the price is zero')
  if (price % BigInt(tick_size) !== 0n)
    throw new InexactValue(
      `the price is not a multiple of ${formatAmount(BigInt(tick_size), quote_decimals)}`,
    )
}

/** Quote tokens per base token, exact. */
export const formatPrice = ({ quote_decimals }: Pick<Instrument, 'quote_decimals'>, price: Price): string =>
  shortest(price, quote_decimals)
