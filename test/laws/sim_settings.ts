/** What a simulated venue trades: three instruments over three mints, every reference policy and price rule among them. */

import type { Settings } from '../../engine/commands'
import { encodeBase58 } from '../../protocol/base58'
import { JTO, SOL, USDC } from '../../sandbox/environment'
import { settings, TICK } from '../kit/venue/machine_world'

export const MINTS = [JTO, USDC, SOL] as const
/** Every instrument trades around this price. */
export const REFERENCE_TICKS = 1_000
/** Publishes the prices of oracle instruments. */
export const ORACLE = 'sim'

type SimInstrument = { symbol: string; base: string; quote: string; oracle: boolean }
export const INSTRUMENTS: readonly SimInstrument[] = [
  { symbol: 'JTO-USDC', base: JTO, quote: USDC, oracle: false },
  { symbol: 'SOL-USDC', base: SOL, quote: USDC, oracle: true },
  { symbol: 'SOL-JTO', base: SOL, quote: JTO, oracle: true },
]
const TERMS = [
  { price_rule: 'std4' as const, volume_tolerance_bps: 0 },
  { price_rule: 'ref' as const, volume_tolerance_bps: 500 },
  { price_rule: 'std4' as const, volume_tolerance_bps: 0 },
]

/** The holder of `fee_key` trades too, so what was charged trades again. */
export function simSettings(fee_key: Uint8Array): Settings {
  const template = settings()
  const [instrument] = template.instruments
  const mint = (text: string) => ({ ...template.mints[0]!, mint: text, decimals: text === USDC ? 6 : 9 })
  return {
    ...template,
    mints: MINTS.map(mint),
    instruments: INSTRUMENTS.map(({ symbol, base, quote, oracle }, at) => ({
      ...instrument!,
      ...TERMS[at]!,
      batch_slots: 2,
      symbol,
      base_mint: base,
      quote_mint: quote,
      quote_decimals: quote === USDC ? 6 : 9,
      collar_bps: 400,
      initial_reference: (TICK * BigInt(REFERENCE_TICKS)).toString(),
      reference_policy: oracle ? ('oracle' as const) : ('last' as const),
    })),
    reference_sources: INSTRUMENTS.filter(({ oracle }) => oracle).map(({ symbol }) => ({
      symbol,
      max_age_ms: 60_000,
      sources: [{ source: ORACLE, key: encodeBase58(fee_key) }],
    })),
    settlement_parts_max: 12,
    retention_days: 1,
    fee_key: encodeBase58(fee_key),
  }
}
