/** Makes accounts and logins for tests: keys from names, and one passphrase whose digest is computed once. */
import { argon2Sync } from 'node:crypto'
import type { Login } from '../../../client/api/venue_client'
import { signCredential } from '../../../client/wallet/account'
import { accountIdOf, PASSPHRASE_COST, secretHash } from '../../../protocol/bodies/account'
import { toHex, utf8 } from '../../../protocol/bytes'
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
/** The account id of a name; an id stays what it is. */
export function accountId(name: string): string {
  if (name.length === 64) return name
  const known = ids.get(name) ?? accountIdOf(publicKeyOf(accountSeed(name)))
  ids.set(name, known)
  return known
}

/** A credential body of the account with this name and what logs in with it. */
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
