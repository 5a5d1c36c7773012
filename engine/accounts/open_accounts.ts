/** Opens the accounts port: logins, tokens and rate limits, over the journaled accounts and tokens. */

import { Refusal } from '../../protocol/refusals'
import type { Credential } from '../commands'
import { LIMITS } from '../limits'
import type { AccountBook, AccountsPort, ClockPort } from '../ports'
import type { Session } from '../venue'
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
  /** Each ages by the time since its issue on the chain's clock, which began before this process, and by the time elapsed here. */
  const hold = (
    token: Pick<Session, 'account_id' | 'token_id'>,
    credential: Credential,
    until_ms: number,
  ) => {
    const life_ms = Math.min(until_ms - book.unixMs(), 1_000 * options.token_ttl_s)
    if (life_ms > 0) tokens.hold(token, credential, life_ms)
  }
  for (const { credential, until_ms, ...token } of [...book.tokens()].sort((a, b) => a.until_ms - b.until_ms))
    hold(token, credential, until_ms)
  const limits = new AccountLimits(book, clock)
  const passphrases = new Passphrases()
  let is_closed = false
  /** Its caller cannot ask again: the token has ended here. */
  const recordLater = async (record: () => Promise<void>, { expires_ms }: Session) => {
    for (let failed = true; failed && !is_closed && clock.monotonicMs() < expires_ms; ) {
      await Bun.sleep(LIMITS.token_end_retry_ms)
      failed = await record().then(
        () => false,
        () => true,
      )
    }
  }
  const wrong_secrets = new WrongSecrets(credential_key, clock)
  return {
    login: (request) => login({ ...options, passphrases, wrong_secrets }, request),
    authenticate: (token) => tokens.authenticate(token),
    async revoke(session) {
      tokens.revoke(session.token_id)
      const record = () => book.recordEnd(session)
      await record().catch((error) => {
        void recordLater(record, session)
        throw error
      })
    },
    refresh({ account_id, access }, token) {
      const renewed = tokens.authenticate(token)
      // A socket keeps the account and kind of credential of its upgrade; no other can take it over.
      if (renewed.account_id !== account_id || renewed.access !== access) throw new Refusal('token_invalid')
      return renewed
    },
    takeLimit: (caller, cost) => limits.take(caller, cost),
    chargeRead: (caller, units) => limits.charge(caller, units),
    onEnded: (token_id, ended) => tokens.onEnded(token_id, ended),
    durable(command) {
      if (command.kind === 'token_issued') {
        const { account_id, credential_id, token_id, until_ms, version } = command
        const credential = book.credential(credential_id)?.credential
        // Of a credential that the state has replaced, the end follows.
        if (credential?.version === version) hold({ account_id, token_id }, credential, until_ms)
      }
      if (command.kind === 'token_ended') tokens.revoke(command.token_id)
      // A replaced credential's tokens end, too: they were issued for its former version.
      if (command.kind === 'credential') tokens.revokeAll(command.credential_id.toHex())
    },
    close() {
      is_closed = true
      tokens.close()
      passphrases.close()
    },
  }
}
