/** The load rules of an instrument (protocol.md "Instruments and exact arithmetic"): whatever passes computes exactly. */
import { parseU64, U64_MAX } from '../protocol/units'
import { TICK_MAX } from './book/book'
import type { EngineConfig, MintConfig } from './config'
import { LIMITS } from './limits'

type InstrumentConfig = EngineConfig['instruments'][number]

/** Every fault of one instrument as a sentence that names the setting. */
export function checkInstrumentConfig(one: InstrumentConfig, at: string, mints: MintConfig[]): string[] {
  const faults: string[] = []
  const need = (ok: boolean, fault: string) => {
    if (!ok) faults.push(`${at}.${fault}`)
  }
  need(/^[A-Z0-9-]{1,16}$/.test(one.symbol), 'symbol: 1 to 16 characters of A-Z 0-9 -')
  need(one.base_mint !== one.quote_mint, 'quote_mint: equals base_mint')
  need(
    decimalsOf(one.base_mint, mints) === one.base_decimals,
    'base_mint: not a configured mint of base_decimals',
  )
  need(
    decimalsOf(one.quote_mint, mints) === one.quote_decimals,
    'quote_mint: not a configured mint of quote_decimals',
  )
  need(isInteger(one.batch_slots, 1, 100_000), 'batch_slots: 1 to 100000')
  need(isInteger(one.collar_bps, 1, 9_999), 'collar_bps: 1 to 9999')
  need(isInteger(one.fee_bps, 0, 1_000), 'fee_bps: 0 to 1000')
  need(isInteger(one.volume_tolerance_bps, 0, 9_999), 'volume_tolerance_bps: 0 to 9999')
  need(
    one.reference_policy === 'last' || one.reference_policy === 'oracle',
    'reference_policy: last or oracle',
  )
  need(one.price_rule === 'std4' || one.price_rule === 'ref', 'price_rule: std4 or ref')
  need(
    one.price_rule !== 'ref' || one.reference_policy === 'oracle',
    'price_rule: ref needs reference_policy oracle',
  )
  return [...faults, ...checkArithmetic(one, at)]
}

function checkArithmetic(one: InstrumentConfig, at: string): string[] {
  const faults: string[] = []
  const need = (ok: boolean, fault: string) => {
    if (!ok) faults.push(`${at}.${fault}`)
  }
  const positive = (name: 'lot_size' | 'tick_size' | 'min_amount' | 'max_amount' | 'initial_reference') => {
    const value = parseU64(one[name]) ?? 0n
    need(value > 0n, `${name}: not a positive u64 decimal string`)
    return value
  }
  const lot = positive('lot_size')
  const tick = positive('tick_size')
  const min = positive('min_amount')
  const max = positive('max_amount')
  const reference = positive('initial_reference')
  if (faults.length > 0 || !isInteger(one.base_decimals, 0, 18)) return faults
  need(
    (lot * tick) % 10n ** BigInt(one.base_decimals) === 0n,
    'tick_size: lot_size * tick_size is not a multiple of 10^base_decimals',
  )
  need(min % lot === 0n && max % lot === 0n, 'min_amount: limits are not multiples of lot_size')
  need(min <= max, 'max_amount: below min_amount')
  need(reference % tick === 0n, 'initial_reference: not a multiple of tick_size')
  need(reference / tick <= BigInt(TICK_MAX), 'initial_reference: exceeds the highest tick of the book')
  need((max / lot) * BigInt(LIMITS.orders_live_max) < SAFE, 'max_amount: side totals could exceed 2^53 lots')
  need(
    (max * reference) / 10n ** BigInt(one.base_decimals) <= U64_MAX,
    'max_amount: its value at initial_reference exceeds u64',
  )
  return faults
}

const SAFE = 2n ** 53n

function isInteger(value: number, min: number, max: number): boolean {
  return Number.isSafeInteger(value) && value >= min && value <= max
}

function decimalsOf(mint: string, mints: MintConfig[]): number | undefined {
  return mints.find((known) => known.mint === mint)?.decimals
}
