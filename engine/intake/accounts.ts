/** Verifies admissions, credentials, rebinds and the signed prices of sources, and turns them into commands. */

import { decodeBase58 } from '../../protocol/base58'
import { ADMISSION_BODY, accountIdOf, CREDENTIAL_BODY, REBIND_BODY } from '../../protocol/bodies/account'
import { encodeReferencePrice } from '../../protocol/bodies/signed_calls'
import { fromHex, isZero } from '../../protocol/bytes'
import { verifySignature } from '../../protocol/ed25519'
import { Refusal } from '../../protocol/refusals'
import type {
  AdmissionRequest,
  CredentialRequest,
  RebindRequest,
  ReferencePrice,
} from '../../protocol/wire/trading'
import type { Parsed } from '../../protocol/wire/values'
import type { AccountRecord, CredentialSet, Rebind, Reference } from '../commands'
import type { ReferenceSources } from '../config'
import { LIMITS } from '../limits'
import { type InstrumentState, referenceTicks } from '../machine/state/instrument'

/** Refuses `operator_signature_invalid`. */
export function intakeAdmission(
  venue: Uint8Array,
  operator_key: Uint8Array,
  request: Parsed<typeof AdmissionRequest>,
): AccountRecord {
  if (!verifySignature(request.signature, ADMISSION_BODY.encode({ ...request, venue }), operator_key))
    throw new Refusal('operator_signature_invalid')
  return { ...request, kind: 'account_record', account_id: accountIdOf(request.account_key) }
}

/**
 * Refuses `field_invalid` of a revocation that carries more than its id, and `signature_invalid` unless the account key
 * signed the body.
 */
export function intakeCredential(
  venue: Uint8Array,
  request: Parsed<typeof CredentialRequest>,
): CredentialSet {
  const { account_key, kind: grants, ...terms } = request
  const account_id = accountIdOf(account_key)
  const { expiry_s, passphrase_digest, salt, secret_hash } = terms
  const bare = expiry_s === 0 && [passphrase_digest, salt, secret_hash].every(isZero)
  if (grants === 'revoke' && !bare) throw new Refusal('field_invalid', { field: 'kind' })
  const body = CREDENTIAL_BODY.encode({ ...terms, kind: grants, venue, account_id: fromHex(account_id, 32)! })
  if (!verifySignature(terms.signature, body, account_key)) throw new Refusal('signature_invalid')
  return { ...terms, kind: 'credential', grants, account_id }
}

/** Refuses `signature_invalid` unless the trading key signed its move to this account. */
export function intakeRebind(
  venue: Uint8Array,
  account_id: string,
  request: Parsed<typeof RebindRequest>,
): Rebind {
  const body = REBIND_BODY.encode({ ...request, venue, account_id: fromHex(account_id, 32)! })
  if (!verifySignature(request.signature, body, request.trading_key)) throw new Refusal('signature_invalid')
  return { ...request, kind: 'rebind', account_id }
}

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
