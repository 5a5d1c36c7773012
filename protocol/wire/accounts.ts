/** Describes the JSON shapes of accounts: the operator's record, credentials, rebind, and the account as its trader sees it. */

import { ACCOUNT_STATES, CREDENTIAL_KINDS } from '../bodies/account'
import { ACCOUNT_KEYS_MAX, ACCOUNT_ORDERS_LIVE_MAX, ACCOUNT_RATE_MAX } from '../limits'
import {
  Count,
  exact,
  Hash,
  Hex16,
  Integer,
  Milliseconds,
  Nonce,
  OrderId,
  oneOf,
  PublicKey,
  Seq,
  Signature,
  Slot,
  type Static,
  t,
} from './values'

const AccountState = oneOf(ACCOUNT_STATES)
const CredentialKind = oneOf(CREDENTIAL_KINDS)
const CredentialId = Hex16('The api key of a login, 16 bytes, lowercase hex.')
export const AccountLimits = exact({
  rate_capacity: Integer(1, ACCOUNT_RATE_MAX),
  rate_refill_per_s: Integer(1, ACCOUNT_RATE_MAX),
  orders_live_max: Integer(0, ACCOUNT_ORDERS_LIVE_MAX),
  keys_max: Integer(0, ACCOUNT_KEYS_MAX),
})
export type AccountLimits = Static<typeof AccountLimits>
const Version = Integer(1, Number.MAX_SAFE_INTEGER, 'Strictly rising per account.')
/** The operator's record: the body of `POST /accounts` on the operator listener. */
export const AdmissionRequest = exact({
  account_key: PublicKey,
  version: Version,
  state: AccountState,
  limits: AccountLimits,
  signature: Signature,
})
export type AdmissionRequest = Static<typeof AdmissionRequest>
/** A trader's credential, signed with the account key. The other fields of a `revoke` are zeros. */
export const CredentialRequest = exact({
  account_key: PublicKey,
  credential_id: CredentialId,
  version: Version,
  kind: CredentialKind,
  secret_hash: Hash,
  passphrase_digest: Hash,
  salt: Hex16('16 bytes, lowercase hex.'),
  expiry_s: Integer(0, Number.MAX_SAFE_INTEGER, 'Unix seconds; 0 never expires.'),
  signature: Signature,
})
export type CredentialRequest = Static<typeof CredentialRequest>
export const CredentialResult = exact({ credential_id: CredentialId, version: Version, seq: Seq })
export type CredentialResult = Static<typeof CredentialResult>
/** Moves a trading key to the caller's account; signed with the trading key. */
export const RebindRequest = exact({ trading_key: PublicKey, cancel_nonce: Nonce, signature: Signature })
export type RebindRequest = Static<typeof RebindRequest>
export const RebindResult = exact({ trading_key: PublicKey, cancelled: t.Array(OrderId), seq: Seq })
export type RebindResult = Static<typeof RebindResult>

/** Data of `account.changed`: an act of the operator, or of a holder of the account key or of a credential. */
export const AccountChange = exact({
  change: oneOf(['admission', 'credential', 'login', 'key_joined', 'key_left']),
  state: t.Optional(AccountState),
  version: t.Optional(Count),
  credential_id: t.Optional(CredentialId),
  kind: t.Optional(CredentialKind),
  trading_key: t.Optional(PublicKey),
})
export type AccountChange = Static<typeof AccountChange>
/** An account as its trader sees it. `changes` are its newest ones, oldest first. */
export const AccountView = exact({
  account_id: Hash,
  account_key: PublicKey,
  state: AccountState,
  version: Version,
  limits: AccountLimits,
  credential_version: Count,
  credentials: t.Array(
    exact({
      credential_id: CredentialId,
      kind: CredentialKind,
      version: Version,
      expiry_s: Count,
      created_slot: Slot,
    }),
  ),
  keys: t.Array(PublicKey),
  changes: t.Array(exact({ seq: Seq, slot: Slot, unix_ms: Milliseconds, ...AccountChange.properties })),
})
export type AccountView = Static<typeof AccountView>
