/** Opens the accounts port: logins, tokens and rate limits, in memory, over the journaled accounts. */

import { Refusal } from '../../protocol/refusals'
import type { AccountBook, AccountsPort, ClockPort } from '../ports'
import { login, Passphrases } from './login'
import { AccountLimits, WrongSecrets } from './rate_limits'
import { Tokens } from './tokens'

type AccountsOptions = {
  /** 32-byte key of the enclave, under which secrets are compared. */
  credential_key: Uint8Array
  clock: ClockPort
  token_ttl_s: number
  book: AccountBook
}

export function openAccounts(options: AccountsOptions): AccountsPort {
  const { book, clock, credential_key } = options
  const tokens = new Tokens(clock)
  const limits = new AccountLimits(book, clock)
  const passphrases = new Passphrases()
  const wrong_secrets = new WrongSecrets(credential_key, clock)
  return {
    login: (request) => login({ ...options, tokens, passphrases, wrong_secrets }, request),
    authenticate: (token) => tokens.authenticate(token),
    revoke: ({ token_id }) => tokens.revoke(token_id),
    refresh({ account_id, access }, token) {
      const renewed = tokens.authenticate(token)
      // A socket keeps what its upgrade was granted: neither another account nor another kind of credential takes it over.
      if (renewed.account_id !== account_id || renewed.access !== access) throw new Refusal('token_invalid')
      return renewed
    },
    takeLimit: (caller, cost) => limits.take(caller, cost),
    chargeRead: (caller, units) => limits.charge(caller, units),
    onEnded: (token_id, ended) => tokens.onEnded(token_id, ended),
    endCredential: (credential_id) => tokens.revokeAll(credential_id),
    close() {
      tokens.close()
      passphrases.close()
    },
  }
}
