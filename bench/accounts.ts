/** Measures what every authenticated request pays at the account edge: `bun bench/accounts.ts`. */
import { AccountLimits } from '../engine/accounts/rate_limits'
import { Registry } from '../engine/accounts/registry'
import { Tokens } from '../engine/accounts/tokens'
import { publicKeyOf } from '../protocol/sign'
import { DEFAULT_TERMS, issueAccount } from '../tools/account/issue_account'
import { median, report } from './kit/figures'

const ROUNDS = 7
const CALLS = 200_000
const TOKENS = 10_000
const clock = { unixMs: () => Date.now(), monotonicMs: () => performance.now() }

const operator_seed = new Uint8Array(32).fill(1)
const registry = new Registry(new Uint8Array(32), publicKeyOf(operator_seed))
const terms = {
  ...DEFAULT_TERMS,
  account_id: 'bench',
  rate_capacity: 1_000_000,
  rate_refill_per_s: 1_000_000,
}
const { record } = await issueAccount(terms, operator_seed, Date.now())
registry.apply(registry.verify(record))
const tokens = new Tokens(clock, 900)
const limits = new AccountLimits(registry, clock)
const issued = Array.from({ length: TOKENS }, (_, at) => tokens.issue(`account-${at >> 4}`))

function nsPerCall(call: (at: number) => void): number {
  const times: number[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const started = Bun.nanoseconds()
    for (let at = 0; at < CALLS; at++) call(at)
    times.push((Bun.nanoseconds() - started) / CALLS)
  }
  return Math.round(median(times))
}

const authenticate = nsPerCall((at) => void tokens.authenticate(issued[at % TOKENS]!))
const take = nsPerCall(() => void limits.take('bench', 0.1))
tokens.close()
report('accounts', [
  { figure: 'authenticate one of 10,000 tokens', value: authenticate, unit: 'ns' },
  { figure: 'take from the account limit', value: take, unit: 'ns' },
])
