/** An account edge for tests of the engine alone: every named account may log in, tokens are the account's id. */

import type { AccountsPort, VerifiedRecord } from '../../../engine/ports'
import type { Session } from '../../../engine/venue'
import { utf8 } from '../../../protocol/bytes'
import { Refusal } from '../../../protocol/refusals'

export function testAccounts(): AccountsPort & { kill(token_id: string): void } {
  const known = new Set<string>()
  const listeners = new Map<string, Set<() => void>>()
  const session = (account_id: string): Session => ({ account_id, token_id: account_id, expires_ms: 1e12 })
  return {
    async login({ api_key }) {
      if (!known.has(api_key)) throw new Refusal('credentials_invalid')
      return { access_token: api_key, token_type: 'Bearer', expires_in: 900, account_id: api_key }
    },
    authenticate(token) {
      if (!known.has(token)) throw new Refusal('token_invalid')
      return session(token)
    },
    revoke: ({ account_id }) => void known.delete(account_id),
    refresh: (_session, token) => session(token),
    takeLimit: () => ({ capacity: 100, refill_per_s: 50, remaining: 100, retry_after_ms: 0 }),
    onEnded(token_id, ended) {
      const all = listeners.get(token_id) ?? new Set()
      listeners.set(token_id, all.add(ended))
      return () => void all.delete(ended)
    },
    verifyRecord(record) {
      const fields = record as VerifiedRecord['record']
      return { record: fields, command: { ...fields, record: utf8(JSON.stringify(fields)) } }
    },
    applyRecord: ({ record }) => void known.add(record.account_id),
    close: async () => {},
    kill(token_id) {
      for (const ended of listeners.get(token_id) ?? []) ended()
    },
  }
}
