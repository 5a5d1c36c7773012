/** Keeps the newest record of each account and verifies records and secrets. */

import { createHmac, timingSafeEqual } from 'node:crypto'
import {
  type AccountRecord,
  isSignedBy,
  readAccountRecord,
  secretHash,
} from '../../protocol/bodies/account_record'
import { fromHex, utf8 } from '../../protocol/bytes'
import { Refusal } from '../../protocol/refusals'
import { LIMITS } from '../limits'
import type { VerifiedRecord } from '../ports'

/** HMAC-SHA256 under the enclave's credential key. */
export function keyed(credential_key: Uint8Array, message: Uint8Array): Uint8Array {
  return createHmac('sha256', credential_key).update(message).digest()
}

type Account = {
  readonly record: AccountRecord
  readonly secret_salt: Uint8Array
  /** keyed() of the record's secret hash, so that a memory dump alone cannot verify a guessed secret. */
  readonly secret_check: Uint8Array
}

export class Registry {
  private readonly by_id = new Map<string, Account>()
  private readonly by_api_key = new Map<string, Account>()

  constructor(
    private readonly credential_key: Uint8Array,
    private readonly operator_key: Uint8Array,
  ) {}

  get(account_id: string): Account | undefined {
    return this.by_id.get(account_id)
  }

  /** The account that logs in with this API key, active or suspended. */
  byApiKey(api_key: string): Account | undefined {
    return this.by_api_key.get(api_key)
  }

  /** Throws `record_invalid`, `operator_signature_invalid` or `record_stale`. */
  verify(value: unknown): VerifiedRecord {
    const record = readAccountRecord(value)
    if (record === undefined) throw new Refusal('record_invalid')
    if (!isSignedBy(record, this.operator_key)) throw new Refusal('operator_signature_invalid')
    const known = this.by_id.get(record.account_id)
    if (known !== undefined && record.version <= known.record.version) throw new Refusal('record_stale')
    const holder = this.by_api_key.get(record.api_key)
    if (holder !== undefined && holder !== known) throw new Refusal('record_invalid', { field: 'api_key' })
    if (known === undefined && this.by_id.size >= LIMITS.accounts_max)
      throw new Refusal('record_invalid', { field: 'account_id' })
    const { account_id, version, status, orders_live_max, keys_max } = record
    const bytes = utf8(JSON.stringify(record))
    return { record, command: { account_id, version, status, orders_live_max, keys_max, record: bytes } }
  }

  /** Stores a verified record; undefined if the stored one is at least as new. */
  apply({ record }: VerifiedRecord): Account | undefined {
    const known = this.by_id.get(record.account_id)
    if (known !== undefined && record.version <= known.record.version) return undefined
    const secret_salt = fromHex(record.secret_salt, 32)!
    const secret_check = keyed(this.credential_key, fromHex(record.secret_hash, 32)!)
    const account = { record, secret_salt, secret_check }
    if (known !== undefined) this.by_api_key.delete(known.record.api_key)
    this.by_id.set(record.account_id, account)
    this.by_api_key.set(record.api_key, account)
    return account
  }

  /**
   * The account of an API key if the secret is correct. An unknown key costs the same work against unreachable values,
   * so the time reveals neither whether a key exists nor how close a secret is.
   */
  recognise(api_key: string, api_secret: string): Account | undefined {
    const account = this.by_api_key.get(api_key)
    const decoy = keyed(this.credential_key, utf8(api_key))
    const given = keyed(this.credential_key, secretHash(account?.secret_salt ?? decoy, api_secret))
    return timingSafeEqual(given, account?.secret_check ?? decoy) ? account : undefined
  }
}
