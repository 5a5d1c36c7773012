/**
 * The account record: what an operator signs to make, change, rotate or suspend an account. It holds no secret, only what
 * recognises one, so it may be kept and posted in the open.
 */
import { createHmac } from 'node:crypto'
import { fromHex, toHex, utf8 } from '../bytes'
import { ascii, domain, hex, struct, uint, word, zeros } from '../codec'
import { verifySignature } from '../ed25519'
import { ACCOUNT_KEYS_MAX, ACCOUNT_ORDERS_LIVE_MAX, ACCOUNT_RATE_MAX } from '../limits'
import { sign } from '../sign'

const ACCOUNT_DOMAIN = 'tacit/account/v1'
/** What the operator signs. */
const SIGNED = struct({
  domain: domain(ACCOUNT_DOMAIN),
  account_id: ascii(32),
  version: uint,
  status: word(['active', 'suspended']),
  reserved: zeros(7),
  api_key: hex(16),
  secret_salt: hex(32),
  secret_hash: hex(32),
  rate_capacity: uint,
  rate_refill_per_s: uint,
  orders_live_max: uint,
  keys_max: uint,
  issued_unix_ms: uint,
  passphrase_hash: ascii(128),
})
/** The bytes the operator signs. The fields must be well formed. */
export const accountRecordBytes: (fields: AccountFields) => Uint8Array = SIGNED.encode

/** Hex fields are lowercase; numbers are JSON integers. */
export type AccountFields = {
  /** 1 to 32 characters: a to z, 0 to 9, `_` and `-`, not beginning with a sign. */
  account_id: string
  /** From 1; only a higher version replaces a known one. */
  version: number
  status: 'active' | 'suspended'
  /** 16 bytes, hex: names the credentials, no secret. */
  api_key: string
  /** 32 bytes, hex, fresh for every secret. */
  secret_salt: string
  /** 32 bytes, hex: `secretHash` of the api secret. */
  secret_hash: string
  /** argon2id of the passphrase in PHC form, memory 19,456 KiB, 2 passes, 1 lane. */
  passphrase_hash: string
  rate_capacity: number
  rate_refill_per_s: number
  orders_live_max: number
  keys_max: number
  issued_unix_ms: number
}
/** The JSON that is written, posted and journaled. `signature` is 64 bytes, hex, by the operator key. */
export type AccountRecord = { record: typeof ACCOUNT_DOMAIN } & AccountFields & { signature: string }

/** Costs every passphrase hash must have, so that no record makes a login dear. */
export const PASSPHRASE_COST = { algorithm: 'argon2id', memoryCost: 19_456, timeCost: 2 } as const
const PASSPHRASE_HASH = /^\$argon2id\$v=19\$m=19456,t=2,p=1\$[A-Za-z0-9+/]{22,64}\$[A-Za-z0-9+/]{43}$/
const ACCOUNT_ID = /^[a-z0-9][a-z0-9_-]{0,31}$/
export const isAccountId = (text: string): boolean => ACCOUNT_ID.test(text)
const HEX_WIDTHS = { api_key: 16, secret_salt: 32, secret_hash: 32, signature: 64 } as const
/** Lowest and highest value of each number. */
const RANGES = {
  version: [1, Number.MAX_SAFE_INTEGER],
  rate_capacity: [1, ACCOUNT_RATE_MAX],
  rate_refill_per_s: [1, ACCOUNT_RATE_MAX],
  orders_live_max: [0, ACCOUNT_ORDERS_LIVE_MAX],
  keys_max: [0, ACCOUNT_KEYS_MAX],
  issued_unix_ms: [0, Number.MAX_SAFE_INTEGER],
} as const
const FIELDS = 14

/** HMAC-SHA256 of the secret's text under the record's salt. The secret is 256 random bits, so one pass is enough. */
export function secretHash(salt: Uint8Array, api_secret: string): Uint8Array {
  return createHmac('sha256', salt).update(utf8(api_secret)).digest()
}

/** Signs a record with the 32-byte operator seed. @throws RangeError when a field is not well formed. */
export function signAccountRecord(fields: AccountFields, operator_seed: Uint8Array): AccountRecord {
  const unsigned = { record: ACCOUNT_DOMAIN, ...fields } as const
  if (readAccountRecord({ ...unsigned, signature: '00'.repeat(64) }) === undefined)
    throw new RangeError('account record is not well formed')
  return { ...unsigned, signature: toHex(sign(operator_seed, accountRecordBytes(fields))) }
}

/** A record of exactly this form, or undefined. Says nothing about its signature. */
export function readAccountRecord(value: unknown): AccountRecord | undefined {
  if (typeof value !== 'object' || value === null || Object.keys(value).length !== FIELDS) return undefined
  const given = value as Record<keyof AccountRecord, unknown>
  if (given.record !== ACCOUNT_DOMAIN) return undefined
  if (given.status !== 'active' && given.status !== 'suspended') return undefined
  if (!matches(given.account_id, ACCOUNT_ID) || !matches(given.passphrase_hash, PASSPHRASE_HASH))
    return undefined
  for (const [name, width] of Object.entries(HEX_WIDTHS) as [keyof typeof HEX_WIDTHS, number][]) {
    const text = given[name]
    if (typeof text !== 'string' || fromHex(text, width) === undefined) return undefined
  }
  for (const [name, [least, most]] of Object.entries(RANGES) as [
    keyof typeof RANGES,
    readonly [number, number],
  ][]) {
    const number = given[name]
    if (!Number.isSafeInteger(number) || (number as number) < least || (number as number) > most)
      return undefined
  }
  return value as AccountRecord
}

/** Whether the operator's key signed exactly this record. */
export function isSignedBy(record: AccountRecord, operator_key: Uint8Array): boolean {
  return verifySignature(fromHex(record.signature, 64)!, accountRecordBytes(record), operator_key)
}

function matches(value: unknown, form: RegExp): boolean {
  return typeof value === 'string' && form.test(value)
}
