/** Verifies a source's signed price and turns it into a command. */
import { decodeBase58 } from '../../protocol/base58'
import { encodeReferencePrice } from '../../protocol/bodies/reference_price'
import { verifySignature } from '../../protocol/ed25519'
import { Refusal } from '../../protocol/refusals'
import type { ReferencePrice } from '../../protocol/wire/trading'
import type { Parsed } from '../../protocol/wire/values'
import type { Reference } from '../commands'
import type { ReferenceSources } from '../config'
import { LIMITS } from '../limits'
import { type InstrumentState, referenceTicks } from '../machine/state/instrument'

type ReferenceIntake = {
  venue: Uint8Array
  sources: readonly ReferenceSources[]
  instruments: ReadonlyMap<string, InstrumentState>
}

/**
 * Refuses `instrument_unknown`, `field_invalid` of a symbol without oracle or a price off tick, `reference_source_invalid`
 * (unknown source, or a signature over another venue or content) and `reference_stale` (too old, ahead of the clock, or not
 * newer than the known price).
 */
export function intakeReference(
  intake: ReferenceIntake,
  now_ms: number,
  { signature, ...signed }: Parsed<typeof ReferencePrice>,
): Reference {
  const { symbol, price, publish_unix_ms, source } = signed
  const instrument = intake.instruments.get(symbol)
  if (instrument === undefined) throw new Refusal('instrument_unknown')
  if (instrument.terms.reference_policy !== 'oracle') throw new Refusal('field_invalid', { field: 'symbol' })
  const rule = intake.sources.find((one) => one.symbol === symbol)
  const key = decodeBase58(rule?.sources.find((one) => one.source === source)?.key ?? '', 32)
  if (rule === undefined || key === undefined) throw new Refusal('reference_source_invalid')
  const { venue } = intake
  const body = encodeReferencePrice({ ...signed, venue, publish_unix_ms: BigInt(publish_unix_ms) })
  if (!verifySignature(signature, body, key)) throw new Refusal('reference_source_invalid')
  if (referenceTicks(instrument.terms, price) === undefined) {
    throw new Refusal('field_invalid', { field: 'price' })
  }

  const age_ms = now_ms - publish_unix_ms
  // A price from the future would make every honest price stale until then.
  const timely = age_ms <= rule.max_age_ms && age_ms >= -LIMITS.oracle_ahead_max_ms
  if (!timely || publish_unix_ms <= instrument.reference_unix_ms) throw new Refusal('reference_stale')
  return { kind: 'reference', ...signed }
}
