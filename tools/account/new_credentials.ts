/** Owns the making of an account's credentials: random, printed once, recognised later by what goes into the record. */
import { type AccountFields, PASSPHRASE_COST, secretHash } from '../../protocol/account_record'
import { toHex } from '../../protocol/bytes'

export type Credentials = { api_key: string; api_secret: string; passphrase: string }

/** 16-byte api key, 256-bit secret, and a passphrase of 130 random bits in groups that can be read aloud. */
export function newCredentials(): Credentials {
  return {
    api_key: toHex(randomBytes(16)),
    api_secret: toHex(randomBytes(32)),
    passphrase: newPassphrase(),
  }
}

/** What a record holds of the credentials. */
export async function credentialFields(
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

/** 32 letters and digits without those that look alike: 5 bits each. */
const ALPHABET = 'abcdefghijkmnpqrstuvwxyz23456789'

function newPassphrase(): string {
  const letters = [...randomBytes(26)].map((byte) => ALPHABET[byte & 31])
  return letters
    .join('')
    .match(/.{1,5}/g)!
    .join('-')
}

function randomBytes(width: number): Uint8Array {
  return crypto.getRandomValues(new Uint8Array(width))
}
