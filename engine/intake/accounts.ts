/** Verifies admissions, credentials and rebinds and turns them into commands. */
import { accountIdOf, encodeAdmission, encodeCredential, encodeRebind } from '../../protocol/bodies/account'
import { fromHex, isZero } from '../../protocol/bytes'
import { verifySignature } from '../../protocol/ed25519'
import { Refusal } from '../../protocol/refusals'
import type { AdmissionRequest, CredentialRequest, RebindRequest } from '../../protocol/wire/trading'
import type { Parsed } from '../../protocol/wire/values'
import type { AccountRecord, CredentialSet, Rebind } from '../commands'

/** Refuses `operator_signature_invalid`. */
export function intakeAdmission(
  venue: Uint8Array,
  operator_key: Uint8Array,
  request: Parsed<typeof AdmissionRequest>,
): AccountRecord {
  if (!verifySignature(request.signature, encodeAdmission({ ...request, venue }), operator_key))
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
  const body = encodeCredential({ ...terms, kind: grants, venue, account_id: fromHex(account_id, 32)! })
  if (!verifySignature(terms.signature, body, account_key)) throw new Refusal('signature_invalid')
  return { ...terms, kind: 'credential', grants, account_id }
}

/** Refuses `signature_invalid` unless the trading key signed its move to this account. */
export function intakeRebind(
  venue: Uint8Array,
  account_id: string,
  request: Parsed<typeof RebindRequest>,
): Rebind {
  const body = encodeRebind({ ...request, venue, account_id: fromHex(account_id, 32)! })
  if (!verifySignature(request.signature, body, request.trading_key)) throw new Refusal('signature_invalid')
  return { ...request, kind: 'rebind', account_id }
}
