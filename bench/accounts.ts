/** Measures what every authenticated request pays at the account edge: `bun bench/accounts.ts`. */
import { AccountLimits } from '../engine/accounts/rate_limits'
import { Tokens } from '../engine/accounts/tokens'
import { DEFAULT_LIMITS } from '../tools/account/call_operator'
import { median, report } from './kit/figures'

const ROUNDS = 7
const CALLS = 200_000
const TOKENS = 10_000
const clock = { unixMs: () => Date.now(), monotonicMs: () => performance.now() }

const generous = { ...DEFAULT_LIMITS, rate_capacity: 1_000_000, rate_refill_per_s: 1_000_000 }
const tokens = new Tokens(clock)
const limits = new AccountLimits({ limits: () => generous }, clock)
const issued = Array.from({ length: TOKENS }, (_, at) => {
  const credential_id = `credential-${at >> 4}`
  return tokens.issue(`account-${at >> 4}`, { credential_id, kind: 'trade' }, 900)
})

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
