/** Checks who may price the oracle instruments: each has named sources with keys of their own, and nothing else has. */
import { decodeBase58 } from '../protocol/base58'
import { isSourceName } from '../protocol/reference_price'
import type { EngineConfig, ReferenceSources } from './config'
import { LIMITS } from './limits'

/** Every fault as a sentence that names the setting. */
export function checkReferenceSources({ instruments, reference_sources = [] }: EngineConfig): string[] {
  const faults = reference_sources.flatMap((one, index) => checkOne(one, `reference_sources[${index}]`))
  for (const { symbol, reference_policy } of instruments) {
    const entries = reference_sources.filter((one) => one.symbol === symbol).length
    if (reference_policy === 'oracle' && entries === 0)
      faults.push(`reference_sources: ${symbol} has reference_policy oracle and names no source`)
    if (reference_policy !== 'oracle' && entries > 0)
      faults.push(`reference_sources: ${symbol} has no reference_policy oracle`)
    if (entries > 1) faults.push(`reference_sources: ${symbol} is named twice`)
  }
  for (const { symbol } of reference_sources)
    if (!instruments.some((one) => one.symbol === symbol))
      faults.push(`reference_sources: ${symbol} is not an instrument`)
  return faults
}

function checkOne({ max_age_ms, sources }: ReferenceSources, at: string): string[] {
  const faults: string[] = []
  const need = (ok: boolean, fault: string) => {
    if (!ok) faults.push(`${at}.${fault}`)
  }
  const { oracle_age_min_ms: min, oracle_age_max_ms: max } = LIMITS
  need(
    Number.isSafeInteger(max_age_ms) && max_age_ms >= min && max_age_ms <= max,
    `max_age_ms: ${min} to ${max}`,
  )
  need(sources.length > 0, 'sources: at least one is required')
  need(
    sources.every(({ source }) => isSourceName(source)),
    'sources: a name is 1 to 16 characters of a-z 0-9 -',
  )
  need(
    sources.every(({ key }) => decodeBase58(key, 32) !== undefined),
    'sources: a key is not a base58 Ed25519 public key',
  )
  need(isDistinct(sources.map(({ source }) => source)), 'sources: a name is used twice')
  need(isDistinct(sources.map(({ key }) => key)), 'sources: a key is used twice')
  return faults
}

function isDistinct(texts: string[]): boolean {
  return new Set(texts).size === texts.length
}
