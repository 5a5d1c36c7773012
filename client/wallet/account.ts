/**
 * Makes the statements that an account key and a trading key sign for a login: credentials, revocations and the move of a key.
 */
import { argon2idAsync } from '@noble/hashes/argon2.js'
import { encodeBase58 } from '../../protocol/base58'
import {
  accountIdOf,
  CREDENTIAL_BODY,
  PASSPHRASE_COST,
  REBIND_BODY,
  secretHash,
} from '../../protocol/bodies/account'
import { fromHex, toHex } from '../../protocol/bytes'
import { publicKeyOf, sign } from '../../protocol/sign'
import type { CredentialRequest, RebindRequest } from '../../protocol/wire/trading'
import type { Login } from '../api/venue_client'
import { nextCancel, signBody } from './prepare'
import type { Wallet } from './wallet'

/** 32 letters and digits without look-alikes: 5 bits each. */
const PASSPHRASE_ALPHABET = 'abcdefghijkmnpqrstuvwxyz23456789'

export type CredentialTerms = {
  kind: 'trade' | 'read'
  /** Above every version that the account key signed before; unix milliseconds serve. */
  version: number
  /** Unix seconds; 0 never expires. */
  expiry_s: number
}

/**
 * A new credential: the body for the venue, which holds only hashes, and the login, which only the trader ever has. The
 * secret has 256 random bits and the passphrase 130. Takes a second or two, for argon2id.
 * @param account_seed of `deriveAccountKey`
 * @param venue 32 bytes of `/info`
 */
export async function newCredential(
  account_seed: Uint8Array,
  venue: Uint8Array,
  terms: CredentialTerms,
): Promise<{ request: CredentialRequest; login: Login }> {
  const secrets = { api_key: toHex(random(16)), api_secret: toHex(random(32)), passphrase: newPassphrase() }
  const login = { ...secrets, account_id: accountIdOf(publicKeyOf(account_seed)) }
  const salt = random(16)
  const request = signCredential(account_seed, venue, {
    ...terms,
    credential_id: login.api_key,
    secret_hash: toHex(secretHash(login.api_secret)),
    passphrase_digest: toHex(await argon2idAsync(login.passphrase, salt, PASSPHRASE_COST)),
    salt: toHex(salt),
  })
  return { request, login }
}

/** Ends a credential and its tokens, and voids every body of a lower version. */
export function revokeCredential(
  account_seed: Uint8Array,
  venue: Uint8Array,
  revoked: Pick<CredentialRequest, 'credential_id' | 'version'>,
): CredentialRequest {
  const zeros = '00'.repeat(32)
  const bare = { secret_hash: zeros, passphrase_digest: zeros, salt: '00'.repeat(16), expiry_s: 0 }
  return signCredential(account_seed, venue, { ...revoked, ...bare, kind: 'revoke' })
}

/** Signs a body with the account key. The fields must be well formed. */
export function signCredential(
  account_seed: Uint8Array,
  venue: Uint8Array,
  fields: Omit<CredentialRequest, 'account_key' | 'signature'>,
): CredentialRequest {
  const account_key = publicKeyOf(account_seed)
  const body = CREDENTIAL_BODY.encode({
    ...fields,
    venue,
    account_id: fromHex(accountIdOf(account_key), 32)!,
    credential_id: fromHex(fields.credential_id, 16)!,
    secret_hash: fromHex(fields.secret_hash, 32)!,
    passphrase_digest: fromHex(fields.passphrase_digest, 32)!,
    salt: fromHex(fields.salt, 16)!,
  })
  return { account_key: encodeBase58(account_key), ...fields, signature: toHex(sign(account_seed, body)) }
}

/**
 * Moves a trading key of the wallet to the caller's account, for an account key that was lost. Its live orders end.
 * @param account_id of the account that takes the key, 64 hex digits
 */
export function prepareRebind(
  wallet: Wallet,
  venue: Uint8Array,
  key_index: number,
  account_id: string,
): RebindRequest {
  const { trading_key, cancel_nonce } = nextCancel(wallet, key_index)
  const body = REBIND_BODY.encode({
    venue,
    trading_key: wallet.tradingKey(key_index),
    account_id: fromHex(account_id, 32)!,
    cancel_nonce: BigInt(cancel_nonce),
  })
  return { trading_key, cancel_nonce, signature: signBody(wallet, key_index, body) }
}

function newPassphrase(): string {
  const letters = [...random(26)].map((byte) => PASSPHRASE_ALPHABET[byte & 31])
  return letters
    .join('')
    .match(/.{1,5}/g)!
    .join('-')
}

function random(width: number): Uint8Array {
  return crypto.getRandomValues(new Uint8Array(width))
}
