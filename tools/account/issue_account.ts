/** Issues, rotates, suspends and resumes accounts, and sends signed calls to the operator's listener. */
import type { Options } from '../../client/cli/command'
import {
  type AccountFields,
  type AccountRecord,
  PASSPHRASE_COST,
  secretHash,
  signAccountRecord,
} from '../../protocol/bodies/account_record'
import { operatorHeaders } from '../../protocol/bodies/operator_request'
import { toHex, utf8 } from '../../protocol/bytes'

const CALL_LIFE_S = 60
/** 32 letters and digits without look-alikes: 5 bits each. */
const PASSPHRASE_ALPHABET = 'abcdefghijkmnpqrstuvwxyz23456789'

/** Limits of an account for which the operator names none. */
export const DEFAULT_TERMS = {
  rate_capacity: 100,
  rate_refill_per_s: 50,
  orders_live_max: 10_000,
  keys_max: 10_000,
}

export type AccountTerms = Pick<
  AccountFields,
  'account_id' | 'rate_capacity' | 'rate_refill_per_s' | 'orders_live_max' | 'keys_max'
>
type Credentials = { api_key: string; api_secret: string; passphrase: string }

/** Random: 16-byte api key, 256-bit secret, and a passphrase of 130 bits in groups that can be read aloud. */
function newCredentials(): Credentials {
  return {
    api_key: toHex(randomBytes(16)),
    api_secret: toHex(randomBytes(32)),
    passphrase: newPassphrase(),
  }
}

/** The public fields by which a record verifies the credentials. */
async function credentialFields(
  credentials: Credentials,
): Promise<Pick<AccountFields, 'api_key' | 'secret_salt' | 'secret_hash' | 'passphrase_hash'>> {
  const salt = randomBytes(32)
  return {
    api_key: credentials.api_key,
    secret_salt: toHex(salt),
    secret_hash: toHex(secretHash(salt, credentials.api_secret)),
    passphrase_hash: await Bun.password.hash(credentials.passphrase, PASSPHRASE_COST),
  }
}

function newPassphrase(): string {
  const letters = [...randomBytes(26)].map((byte) => PASSPHRASE_ALPHABET[byte & 31])
  return letters
    .join('')
    .match(/.{1,5}/g)!
    .join('-')
}

function randomBytes(width: number): Uint8Array {
  return crypto.getRandomValues(new Uint8Array(width))
}

/** A new account at version 1 and its credentials, of which the record holds only hashes. */
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

/** New credentials for a known account; the venue revokes its tokens when the record arrives. */
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

/** The options that name an operator's listener. */
type TargetOptions = Options<'operator-key' | 'url' | 'venue' | 'ca'>

/** The target that the options name. @throws UsageFault, Refused */
export function operatorTarget(options: TargetOptions): OperatorTarget {
  return {
    url: options.text('url'),
    venue: options.hex32('venue'),
    operator_seed: options.seed('operator-key'),
    ca: options.file('ca'),
  }
}

export type OperatorTarget = {
  /** Base address of the listener. */
  url: string
  /** 32 bytes. */
  venue: Uint8Array
  operator_seed: Uint8Array
  /** PEM certificate that the listener must present; undefined: one that the system's authorities accept. */
  ca: string | undefined
}

/** Returns the response body. `now_ms` must increase with every call. @throws Error when the venue rejects it */
export async function callOperator(
  { ca, operator_seed, url, venue }: OperatorTarget,
  call: { method: 'GET' | 'POST'; path: string; body: string | undefined },
  now_ms: number,
): Promise<string> {
  const { body, method, path } = call
  const signed = {
    venue,
    nonce: BigInt(now_ms),
    expiry_unix_s: Math.floor(now_ms / 1000) + CALL_LIFE_S,
    method,
    target: path,
    body: utf8(body ?? ''),
  }
  const headers = { 'content-type': 'application/json', ...operatorHeaders(signed, operator_seed) }
  if (!URL.canParse(path, url) || !/^https?:/.test(url))
    throw new Error(`${url} is not the URL of a listener`)
  const answer = await fetch(new URL(path, url), {
    method,
    headers,
    ...(body === undefined ? {} : { body }),
    ...(ca === undefined ? {} : { tls: { ca } }),
  }).catch((error: Error) => {
    const untrusted = /certificate/i.test(error.message)
    const hint = untrusted ? ': name its certificate with --ca' : ''
    throw new Error(`${url} did not answer (${error.message})${hint}`)
  })
  const text = await answer.text()
  if (!answer.ok) throw new Error(`the venue answered ${answer.status}: ${text}`)
  return text
}
