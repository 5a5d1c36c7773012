/** Verifies a source's signed price and parses it into a command. */
import { decodeBase58 } from '../../protocol/base58'
import { encodeReferencePrice, isSourceName } from '../../protocol/bodies/reference_price'
import { verifySignature } from '../../protocol/ed25519'
import { Refusal } from '../../protocol/refusals'
import type { Reference } from '../commands'
import type { ReferenceSources } from '../config'
import { LIMITS } from '../limits'
import { type InstrumentState, referenceTicks } from '../machine/state/instrument'
import { hexOf, integerOf, objectOf, refuseField, symbolOf, u64Of } from './form'

type ReferenceIntake = {
  venue: Uint8Array
  sources: readonly ReferenceSources[]
  instruments: ReadonlyMap<string, InstrumentState>
}

/**
 * Refuses form errors, `instrument_unknown`, `reference_source_invalid` (unknown source, or a signature over another venue
 * or content) and `reference_stale` (too old, ahead of the clock, or not newer than the known price).
 */
export function intakeReference(intake: ReferenceIntake, now_ms: number, value: unknown): Reference {
  const fields = objectOf(value, '', ['symbol', 'price', 'publish_unix_ms', 'source', 'signature'])
  const symbol = symbolOf(fields['symbol'], 'symbol')
  const price = u64Of(fields['price'], 'price')
  const publish_unix_ms = integerOf(fields['publish_unix_ms'], 'publish_unix_ms')
  const source = sourceOf(fields['source'])
  const signature = hexOf(fields['signature'], 'signature', 64)

  const instrument = intake.instruments.get(symbol)
  if (instrument === undefined) throw new Refusal('instrument_unknown')
  if (instrument.terms.reference_policy !== 'oracle') throw refuseField('field_invalid', 'symbol')
  const rule = intake.sources.find((one) => one.symbol === symbol)
  const key = decodeBase58(rule?.sources.find((one) => one.source === source)?.key ?? '', 32)
  if (rule === undefined || key === undefined) throw new Refusal('reference_source_invalid')
  const { venue } = intake
  const signed = { venue, symbol, price, publish_unix_ms: BigInt(publish_unix_ms), source }
  if (!verifySignature(signature, encodeReferencePrice(signed), key))
    throw new Refusal('reference_source_invalid')
  if (referenceTicks(instrument.terms, price) === undefined) throw refuseField('field_invalid', 'price')

  const age_ms = now_ms - publish_unix_ms
  // A price from the future would make every honest price stale until then.
  const timely = age_ms <= rule.max_age_ms && age_ms >= -LIMITS.oracle_ahead_max_ms
  if (!timely || publish_unix_ms <= instrument.reference_unix_ms) throw new Refusal('reference_stale')
  return { kind: 'reference', symbol, price, publish_unix_ms, source }
}

function sourceOf(value: unknown): string {
  if (typeof value !== 'string' || !isSourceName(value)) throw refuseField('field_invalid', 'source')
  return value
}
