/** Makes accounts and logins for tests, and an account edge that lets every admitted account in. */

import { argon2Sync } from 'node:crypto'
import type { Login } from '../../../client/api/venue_client'
import { signCredential } from '../../../client/wallet/account'
import type { AccountBook, AccountsPort } from '../../../engine/ports'
import type { Session } from '../../../engine/venue'
import { accountIdOf, PASSPHRASE_COST, secretHash } from '../../../protocol/bodies/account'
import { toHex, utf8 } from '../../../protocol/bytes'
import { Refusal } from '../../../protocol/refusals'
import { sha256 } from '../../../protocol/sha256'
import { publicKeyOf } from '../../../protocol/sign'
import type { CredentialRequest } from '../../../protocol/wire/trading'

/** Signs admission records and operator calls at every test venue. */
export const OPERATOR_SEED = new Uint8Array(32).fill(8)
const PASSPHRASE = 'correct horse battery'
const SALT = new Uint8Array(16).fill(5)
let digest: string | undefined

/** Ed25519 seed of the account key with this name. */
export const accountSeed = (name: string): Uint8Array => sha256(utf8(`account ${name}`))
const ids = new Map<string, string>()
/** The account id of a name; an id never changes. */
export function accountId(name: string): string {
  if (name.length === 64) return name
  const known = ids.get(name) ?? accountIdOf(publicKeyOf(accountSeed(name)))
  ids.set(name, known)
  return known
}

/** A credential body of the account with this name and its secrets. */
export function testCredential(
  name: string,
  venue: Uint8Array,
  change: Partial<CredentialRequest> = {},
): { request: CredentialRequest; login: Login } {
  const { m: memory, t: passes, p: parallelism, dkLen: tagLength } = PASSPHRASE_COST
  digest ??= argon2Sync('argon2id', {
    message: PASSPHRASE,
    nonce: SALT,
    memory,
    passes,
    parallelism,
    tagLength,
  }).toString('hex')
  const api_secret = toHex(sha256(utf8(`secret ${name} ${change.version ?? 1}`)))
  const fields = {
    credential_id: toHex(sha256(utf8(`credential ${name}`)).slice(0, 16)),
    version: 1,
    kind: 'trade' as const,
    secret_hash: toHex(secretHash(api_secret)),
    passphrase_digest: digest,
    salt: toHex(SALT),
    expiry_s: 0,
    ...change,
  }
  const request = signCredential(accountSeed(name), venue, fields)
  const login = { api_key: fields.credential_id, api_secret, passphrase: PASSPHRASE }
  return { request, login: { ...login, account_id: accountId(name) } }
}

export type TestAccounts = AccountsPort & { readonly book: AccountBook; kill(token_id: string): void }

export function testAccounts(book: AccountBook): TestAccounts {
  const revoked = new Set<string>()
  const listeners = new Map<string, Set<() => void>>()
  const session = (account_id: string): Session => {
    return { account_id, token_id: account_id, expires_ms: 1e12, credential_id: '', access: 'trade' }
  }
  const isKnown = (account_id: string) => book.limits(account_id) !== undefined && !revoked.has(account_id)
  return {
    book,
    async login({ api_key }) {
      const account_id = accountId(api_key)
      if (!isKnown(account_id)) throw new Refusal('credentials_invalid')
      return { access_token: account_id, token_type: 'Bearer', expires_in: 900, account_id }
    },
    authenticate(token) {
      if (!isKnown(accountId(token))) throw new Refusal('token_invalid')
      return session(accountId(token))
    },
    revoke: async ({ account_id }) => void revoked.add(account_id),
    refresh: (_session, token) => session(accountId(token)),
    takeLimit: () => ({ capacity: 100, refill_per_s: 50, remaining: 100, retry_after_ms: 0 }),
    chargeRead: () => ({ capacity: 100, refill_per_s: 50, remaining: 100, retry_after_ms: 0 }),
    onEnded(token_id, ended) {
      const all = listeners.get(token_id) ?? new Set()
      listeners.set(token_id, all.add(ended))
      return () => void all.delete(ended)
    },
    durable: () => undefined,
    close: () => undefined,
    kill(token_id) {
      for (const ended of listeners.get(accountId(token_id)) ?? []) ended()
    },
  }
}
