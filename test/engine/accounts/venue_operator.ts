/** An operator, its accounts and a clock that moves only when told, for the tests of the account edge. */
import { type Accounts, openAccounts } from '../../../engine/accounts/open_accounts'
import type { ClockPort } from '../../../engine/ports'
import { encodeBase58 } from '../../../protocol/base58'
import { publicKeyOf } from '../../../protocol/sign'
import { type AccountTerms, DEFAULT_TERMS, issueAccount } from '../../../tools/account/issue_account'

export const OPERATOR_SEED = new Uint8Array(32).fill(3)
export const OPERATOR_KEY = encodeBase58(publicKeyOf(OPERATOR_SEED))
export const NOW_MS = 1_700_000_000_000

export type TestClock = ClockPort & { advance(ms: number): void }

export function testClock(): TestClock {
  let passed = 0
  return {
    unixMs: () => NOW_MS + passed,
    monotonicMs: () => 5_000 + passed,
    advance(ms) {
      passed += ms
    },
  }
}

export async function openTestAccounts(): Promise<{ accounts: Accounts; clock: TestClock }> {
  const clock = testClock()
  const credential_key = new Uint8Array(32).fill(9)
  const accounts = await openAccounts({ credential_key, operator_key: OPERATOR_KEY, clock, token_ttl_s: 900 })
  return { accounts, clock }
}

/** A fresh record with its credentials. */
export function issued(account_id: string, terms: Partial<AccountTerms> = {}) {
  return issueAccount({ ...DEFAULT_TERMS, ...terms, account_id }, OPERATOR_SEED, NOW_MS)
}

/** An account in force; login requests are its credentials. */
export async function provisioned(accounts: Accounts, account_id: string, terms: Partial<AccountTerms> = {}) {
  const { credentials, record } = await issued(account_id, terms)
  accounts.applyRecord(accounts.verifyRecord(record))
  return { credentials, record }
}

/** The code a call is refused with. */
export async function codeOf(call: () => unknown): Promise<string> {
  try {
    await call()
  } catch (error) {
    return (error as { code: string }).code
  }
  return 'not refused'
}
