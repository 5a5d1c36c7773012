/** Measures what requests and logins pay at the account edge, alone and within a flood: `bun bench/accounts.ts`. */
import { argon2Sync } from 'node:crypto'
import { Passphrases } from '../engine/accounts/login'
import { AccountLimits } from '../engine/accounts/rate_limits'
import { Tokens } from '../engine/accounts/tokens'
import { PASSPHRASE_COST } from '../protocol/bodies/account'
import { DEFAULT_LIMITS } from '../tools/account/call_operator'
import { median, report } from './kit/figures'

const ROUNDS = 7
const CALLS = 200_000
const TOKENS = 10_000
const LOGINS = 15
/** Wrong logins at once, of as many credentials, whose secrets are right: others never reach the passphrase. */
const FLOOD = 80
const FLOODING = 8
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
const take = nsPerCall(() => void limits.take({ account_id: 'bench', access: 'trade' }, 0.1))
tokens.close()

const { m: memory, t: passes, p: parallelism, dkLen: tagLength } = PASSPHRASE_COST
const salt = Buffer.alloc(16)
const parameters = { message: 'right', nonce: salt, memory, passes, parallelism, tagLength }
const passphrase_digest = argon2Sync('argon2id', parameters)
const terms = { kind: 'trade', version: 1, secret_hash: salt, passphrase_digest, salt, expiry_s: 0 } as const
const passphrases = new Passphrases()
const check = (credential_id: string, passphrase: string) =>
  passphrases.check(passphrase, { ...terms, credential_id }).catch(() => false)

/** Milliseconds of a login's passphrase check, with this many wrong ones sent right before it. */
async function loginMs(flood: number): Promise<number> {
  const times: number[] = []
  for (let round = 0; round < LOGINS; round++) {
    const others = Array.from({ length: flood }, (_, at) => check(`flood ${at % FLOODING}`, 'wrong'))
    const started = performance.now()
    await check('calm', 'right')
    times.push(performance.now() - started)
    await Promise.all(others)
  }
  return Math.round(median(times))
}
await Promise.all(Array.from({ length: FLOODING }, (_, at) => check(`flood ${at}`, 'wrong')))
const [alone, flooded] = [await loginMs(0), await loginMs(FLOOD)]
passphrases.close()
report('accounts', [
  { figure: 'authenticate one of 10,000 tokens', value: authenticate, unit: 'ns' },
  { figure: 'take from the account limit', value: take, unit: 'ns' },
  { figure: 'check a passphrase', value: alone, unit: 'ms' },
  { figure: `check a passphrase behind ${FLOOD} wrong ones of others`, value: flooded, unit: 'ms' },
])
