/** An account edge for tests of the engine alone: every admitted account may log in, tokens are the account's id. */

import type { AccountBook, AccountsPort } from '../../../engine/ports'
import type { Session } from '../../../engine/venue'
import { Refusal } from '../../../protocol/refusals'
import { accountId } from './test_login'

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
