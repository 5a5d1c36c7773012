/** Owns what an operator does with accounts: a signed record for each of issue, rotate, suspend and resume. */
import { type AccountFields, type AccountRecord, signAccountRecord } from '../../protocol/account_record'
import { type Credentials, credentialFields, newCredentials } from './new_credentials'

export type AccountTerms = Pick<
  AccountFields,
  'account_id' | 'rate_capacity' | 'rate_refill_per_s' | 'orders_live_max' | 'keys_max'
>

/** Limits of an account where the operator names none. */
export const DEFAULT_TERMS = {
  rate_capacity: 100,
  rate_refill_per_s: 50,
  orders_live_max: 10_000,
  keys_max: 10_000,
}

/** A new account at version 1 and its credentials, which exist nowhere else. */
export async function issueAccount(
  terms: AccountTerms,
  operator_seed: Uint8Array,
  now_ms: number,
): Promise<{ record: AccountRecord; credentials: Credentials }> {
  const credentials = newCredentials()
  const fields = { ...terms, version: 1, status: 'active' as const, issued_unix_ms: now_ms }
  return {
    record: signAccountRecord({ ...fields, ...(await credentialFields(credentials)) }, operator_seed),
    credentials,
  }
}

/** New credentials for a known account; the venue ends its tokens when the record arrives. */
export async function rotateAccount(
  known: AccountRecord,
  operator_seed: Uint8Array,
  now_ms: number,
): Promise<{ record: AccountRecord; credentials: Credentials }> {
  const credentials = newCredentials()
  return { record: successor(known, await credentialFields(credentials), operator_seed, now_ms), credentials }
}

/** Suspends or resumes: credentials and limits stay. */
export function setStatus(
  known: AccountRecord,
  status: AccountFields['status'],
  operator_seed: Uint8Array,
  now_ms: number,
): AccountRecord {
  return successor(known, { status }, operator_seed, now_ms)
}

function successor(
  known: AccountRecord,
  changes: Partial<AccountFields>,
  operator_seed: Uint8Array,
  now_ms: number,
): AccountRecord {
  const { record: _, signature: __, ...fields } = known
  const version = known.version + 1
  return signAccountRecord({ ...fields, ...changes, version, issued_unix_ms: now_ms }, operator_seed)
}
