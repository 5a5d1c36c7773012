/** Opens the accounts port: records, logins, tokens and rate limits, in memory except for the journaled records. */

import { decodeBase58 } from '../../protocol/base58'
import { Refusal } from '../../protocol/refusals'
import type { AccountsPort, ClockPort } from '../ports'
import { login, Passphrases } from './login'
import { AccountLimits, WrongSecrets } from './rate_limits'
import { Registry } from './registry'
import { Tokens } from './tokens'

type AccountsOptions = {
  /** 32-byte key of the enclave, under which secrets are hashed. */
  credential_key: Uint8Array
  /** Ed25519 public key that signs account records, base58. */
  operator_key: string
  clock: ClockPort
  token_ttl_s: number
}
export type Accounts = AccountsPort & {
  /** Ends expired tokens; a timer does the same. */
  expire(): void
  close(): Promise<void>
}

/** @throws RangeError when `operator_key` is not 32 bytes of base58 */
export async function openAccounts(options: AccountsOptions): Promise<Accounts> {
  const { clock, credential_key, token_ttl_s } = options
  const operator_key = decodeBase58(options.operator_key, 32)
  if (operator_key === undefined) throw new RangeError('operator_key is not 32 bytes of base58')
  const registry = new Registry(credential_key, operator_key)
  const tokens = new Tokens(clock, token_ttl_s)
  const limits = new AccountLimits(registry, clock)
  const passphrases = new Passphrases()
  const wrong_secrets = new WrongSecrets(credential_key, clock)
  return {
    login: (request) => login({ registry, tokens, passphrases, wrong_secrets }, request),
    authenticate: (token) => tokens.authenticate(token),
    revoke: ({ token_id }) => tokens.revoke(token_id),
    refresh(session, token) {
      const renewed = tokens.authenticate(token)
      if (renewed.account_id !== session.account_id) throw new Refusal('token_invalid')
      return renewed
    },
    takeLimit: (account_id, cost) => limits.take(account_id, cost),
    onEnded: (token_id, ended) => tokens.onEnded(token_id, ended),
    verifyRecord: (record) => registry.verify(record),
    applyRecord(verified) {
      const { account_id } = verified.record
      const before = registry.get(account_id)?.record
      const account = registry.apply(verified)
      if (account === undefined || before === undefined) return
      limits.follow(account_id)
      const { secret_hash, status } = account.record
      if (status === 'suspended' || secret_hash !== before.secret_hash) tokens.revokeAll(account_id)
    },
    expire: () => tokens.expire(),
    async close() {
      tokens.close()
      await passphrases.close()
    },
  }
}
