/** Exact money: u64 decimal strings, the quote amount of a trade and the cumulative fee. */

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
export function quoteAmount(amount: bigint, price: bigint, base_decimals: number): bigint {
  const scale = POWERS_OF_TEN[base_decimals] ?? 10n ** BigInt(base_decimals)
  const product = amount * price
  if (product % scale !== 0n) throw new RangeError('amount off lot or price off tick')
  return product / scale
}

/**
 * Fee due on everything an order has traded so far: `ceil(cumulative_quote * fee_bps / 10_000)`. A fill is charged this
 * less the fees the order was charged before, so the fee at the limit always covers all fills.
 */
export function feeUpTo(cumulative_quote: bigint, fee_bps: number): bigint {
  return (cumulative_quote * BigInt(fee_bps) + 9_999n) / 10_000n
}
