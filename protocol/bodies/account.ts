/** Describes the signed bodies of accounts: the operator's admission, the trader's credentials, the move of a trading key. */
import { toHex, utf8 } from '../bytes'
import { ascii, constant, domain, fixed, struct, u64, uint, word, zeros } from '../codec'
import { sha256 } from '../sha256'

/** States of an account; suspended and closed ones still cancel, withdraw and read, and closed is final. */
export const ACCOUNT_STATES = ['active', 'suspended', 'closed'] as const
/** The rights of a credential, and the word that ends one. */
export const CREDENTIAL_KINDS = ['trade', 'read', 'revoke'] as const
/** argon2id of every passphrase: memory in KiB, passes and lanes; the digest has 32 bytes. */
export const PASSPHRASE_COST = { m: 65_536, t: 3, p: 1, dkLen: 32 } as const

/** The account of a 32-byte account key, hex: no record can exchange the key. */
export function accountIdOf(account_key: Uint8Array): string {
  return toHex(sha256(utf8('tacit/account/v1'), account_key))
}

/** The secret as it enters a credential. It is 256 random bits, so one pass is enough. */
export function secretHash(api_secret: string): Uint8Array {
  return sha256(utf8(api_secret))
}

/** Signed by the operator key: admits an account key, with limits and state. */
export const ADMISSION_BODY = struct({
  domain: domain('tacit/admission1'),
  venue: fixed(32),
  account_key: fixed(32),
  version: uint,
  state: word(ACCOUNT_STATES),
  reserved: zeros(7),
  limits: struct({ rate_capacity: uint, rate_refill_per_s: uint, orders_live_max: uint, keys_max: uint }),
})

/** Signed by the account key (protocol.md "Credential"). */
export const CREDENTIAL_BODY = struct({
  domain: constant(ascii(24).encode('tacit/credential1')),
  venue: fixed(32),
  account_id: fixed(32),
  credential_id: fixed(16),
  /** Strictly rising per account. */
  version: uint,
  kind: word(CREDENTIAL_KINDS),
  reserved_kind: zeros(7),
  /** `secretHash` of the secret. */
  secret_hash: fixed(32),
  /** argon2id of the passphrase by `PASSPHRASE_COST` under `salt`. */
  passphrase_digest: fixed(32),
  salt: fixed(16),
  /** Unix seconds; 0 never expires. */
  expiry_s: uint,
  reserved: zeros(32),
})

/** Signed by a trading key: moves it to an account and cancels its orders (protocol.md "Rebind"). */
export const REBIND_BODY = struct({
  domain: domain('tacit/rebind1'),
  venue: fixed(32),
  trading_key: fixed(32),
  account_id: fixed(32),
  cancel_nonce: u64,
  reserved: zeros(8),
})
