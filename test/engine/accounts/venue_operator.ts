/** The account edge over a real state machine, with a clock that the test advances. */
import { openAccounts } from '../../../engine/accounts/open_accounts'
import { intakeCredential } from '../../../engine/intake/requests'
import type { ClockPort } from '../../../engine/ports'
import { encodeBase58 } from '../../../protocol/base58'
import { Refusal } from '../../../protocol/refusals'
import { publicKeyOf } from '../../../protocol/sign'
import {
  type AccountLimits,
  CredentialRequest,
  type CredentialRequest as Request,
} from '../../../protocol/wire/accounts'
import type { TokenRequest } from '../../../protocol/wire/trading'
import { parserOf } from '../../../protocol/wire/values'
import { admission, World } from '../../kit/venue/machine_world'
import { accountId, testCredential } from '../../kit/venue/test_login'

export const OPERATOR_SEED = new Uint8Array(32).fill(3)
export const OPERATOR_KEY = encodeBase58(publicKeyOf(OPERATOR_SEED))
export const NOW_MS = 1_700_000_000_000
const VENUE = new Uint8Array(32).fill(6)
const parseCredential = parserOf(CredentialRequest)

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

export class AccountSite {
  readonly clock = testClock()
  readonly world = new World()
  /** Between the journal record of a login and its token. */
  meanwhile: () => void = () => undefined
  /** Before the journal record of a token's end; may throw. */
  ending: () => void = () => undefined
  readonly accounts = openAccounts({
    credential_key: new Uint8Array(32).fill(9),
    clock: this.clock,
    token_ttl_s: 900,
    book: {
      limits: (id) => this.world.state.accounts.get(id)?.limits,
      credential: (id) => {
        const account = this.world.state.credentials.get(id)
        const credential = account?.credentials.find((one) => one.credential_id === id)
        return credential && { account_id: account!.account_id, credential }
      },
      tokens: () => [],
      recordLogin: async (account_id, { credential_id, version }, token) => {
        this.world.unix_ms = this.clock.unixMs()
        const issued = { kind: 'token_issued', account_id, credential_id, version, ...token } as const
        const outcome = this.world.run(issued)
        if (!outcome.ok) throw new Refusal(outcome.code)
        this.accounts.durable(issued)
        this.meanwhile()
      },
      recordEnd: async ({ account_id, token_id }) => {
        this.ending()
        this.world.must({ kind: 'token_ended', account_id, token_id })
      },
      unixMs: this.clock.unixMs,
    },
  })

  /** Admits the account with this name, or changes its terms. */
  admit(
    name: string,
    terms: { version?: number; state?: 'suspended' | 'closed' } & Partial<AccountLimits> = {},
  ) {
    this.world.must(admission(accountId(name), terms))
  }
  /** Sets a credential of the account as the venue does; returns its secrets. */
  credential(name: string, change: Partial<Request> = {}): TokenRequest {
    const { login, request } = testCredential(name, VENUE, change)
    this.set(request)
    return login
  }
  set(request: Request): void {
    const command = intakeCredential(VENUE, parseCredential(request))
    this.world.must(command)
    this.accounts.durable(command)
  }
  /** A new account and its login. */
  opened(name: string, terms: Partial<AccountLimits> = {}): TokenRequest {
    this.admit(name, terms)
    return this.credential(name)
  }
}

/** The code a call is rejected with. */
export async function codeOf(call: () => unknown): Promise<string> {
  try {
    await call()
  } catch (error) {
    return (error as { code: string }).code
  }
  return 'not refused'
}
