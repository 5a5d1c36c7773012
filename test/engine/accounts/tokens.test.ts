/** Tokens: how long they live, how they end and who hears of it; and the buckets that limit an account. */

import { afterAll, beforeEach, describe, expect, test } from 'bun:test'
import { newToken, Tokens } from '../../../engine/accounts/tokens'
import { LIMITS } from '../../../engine/limits'
import type { AccountSummary } from '../../../engine/venue'
import { encodeBase58 } from '../../../protocol/base58'
import type { Refusal } from '../../../protocol/refusals'
import { publicKeyOf } from '../../../protocol/sign'
import { DEFAULT_LIMITS } from '../../../tools/account/call_operator'
import { TestSite } from '../../kit/venue/open_test_venue'
import { accountId, accountSeed } from '../../kit/venue/test_login'
import { Trader } from '../../kit/venue/trader'
import { AccountSite, codeOf, type TestClock, testClock } from './venue_operator'

let clock: TestClock
let tokens: Tokens
beforeEach(() => {
  tokens?.close()
  clock = testClock()
  tokens = new Tokens(clock)
})

const issue = (credential_id = 'first', ttl_s = 900, kind: 'trade' | 'read' = 'trade') =>
  issueOf({ credential_id, kind }, ttl_s)
function issueOf(credential: { credential_id: string; kind: 'trade' | 'read' }, ttl_s: number): string {
  const { token, token_id } = newToken()
  tokens.hold({ account_id: 'alice', token_id }, credential, 1_000 * ttl_s)
  return token
}

describe('a token', () => {
  test('names its account and is known by its hash only', () => {
    const token = issue()
    const session = tokens.authenticate(token)
    expect(session.account_id).toBe('alice')
    expect(session.token_id).toBe(new Bun.CryptoHasher('sha256').update(token).digest('hex'))
    expect(Bun.inspect(tokens, { depth: 9 })).not.toContain(token)
  })

  test('that was never issued is token_invalid', async () => {
    expect(await codeOf(() => tokens.authenticate('x'.repeat(43)))).toBe('token_invalid')
    expect(await codeOf(() => tokens.authenticate(''))).toBe('token_invalid')
  })

  test('dies at the end of its life, not before', async () => {
    const token = issue()
    clock.advance(899_999)
    expect(tokens.authenticate(token).account_id).toBe('alice')
    clock.advance(1)
    expect(await codeOf(() => tokens.authenticate(token))).toBe('token_expired')
    expect(await codeOf(() => tokens.authenticate(token))).toBe('token_expired')
  })

  test('is void at once after its revocation', async () => {
    const token = issue()
    const other = issue()
    tokens.revoke(tokens.authenticate(token).token_id)
    expect(await codeOf(() => tokens.authenticate(token))).toBe('token_revoked')
    expect(tokens.authenticate(other).account_id).toBe('alice')
    const kept = issue('second')
    tokens.revokeAll('first')
    expect(await codeOf(() => tokens.authenticate(other))).toBe('token_revoked')
    expect(tokens.authenticate(kept).credential_id).toBe('second')
    tokens.revokeAll('third')
    expect(tokens.authenticate(kept).account_id).toBe('alice')
  })

  test('that ended before 65,536 others is forgotten, and all are once the venue closes', async () => {
    const [first, second] = [issue(), issue()]
    for (const token of [first, second]) tokens.revoke(tokens.authenticate(token).token_id)
    for (let at = 1; at < LIMITS.tokens_dead_max; at++) tokens.revoke(tokens.authenticate(issue()).token_id)
    expect(await codeOf(() => tokens.authenticate(first))).toBe('token_invalid')
    expect(await codeOf(() => tokens.authenticate(second))).toBe('token_revoked')
    const live = issue()
    tokens.close()
    expect(await codeOf(() => tokens.authenticate(live))).toBe('token_invalid')
  })

  test('shortened by its credential dies in time, although an older one lives on', async () => {
    const [long, short] = [issue('first', 900, 'read'), issue('second', 10)]
    clock.advance(10_000)
    expect(await codeOf(() => tokens.authenticate(short))).toBe('token_expired')
    expect(tokens.authenticate(long).access).toBe('read')
  })

  test('notifies its listeners once when it expires, is revoked, or is dead already', async () => {
    const heard: string[] = []
    const first = tokens.authenticate(issue()).token_id
    const stop = tokens.onEnded(first, () => heard.push('stopped'))
    tokens.onEnded(first, () => heard.push('expired'))
    stop()
    clock.advance(900_000)
    const second = tokens.authenticate(issue()).token_id
    tokens.onEnded(second, () => heard.push('revoked'))
    // The login of the second one ended the first.
    expect(heard).toEqual(['expired'])
    tokens.revoke(second)
    tokens.revoke(second)
    expect(heard).toEqual(['expired', 'revoked'])
    tokens.onEnded(first, () => heard.push('late'))
    tokens.onEnded(first, () => heard.push('stopped'))()
    await Promise.resolve()
    expect(heard).toEqual(['expired', 'revoked', 'late'])
  })

  test('of a credential that logs in too often replaces its oldest one, and none of another credential', async () => {
    const kept = issue('trading')
    const all = Array.from({ length: LIMITS.credential_tokens_max + 1 }, () => issue('reading', 900, 'read'))
    expect(await codeOf(() => tokens.authenticate(all[0]!))).toBe('token_revoked')
    for (const token of [kept, ...all.slice(1)]) expect(tokens.authenticate(token).account_id).toBe('alice')
  })
})

const edge = new AccountSite()
const { accounts, clock: limitsClock } = edge
const take = (name: string, cost: number, access: 'trade' | 'read' = 'trade') =>
  accounts.takeLimit({ account_id: accountId(name), access }, cost)
afterAll(() => accounts.close())

function refusal(call: () => unknown): Refusal {
  try {
    call()
  } catch (error) {
    return error as Refusal
  }
  throw new Error('not refused')
}

describe('the limit of an account', () => {
  test('is its capacity at once, then its refill', () => {
    edge.admit('alice', { rate_capacity: 10, rate_refill_per_s: 4 })
    for (let at = 9; at >= 0; at--) {
      const state = take('alice', 1)
      expect(state).toEqual({ capacity: 10, refill_per_s: 4, remaining: at, retry_after_ms: 0 })
    }
    const refused = refusal(() => take('alice', 1))
    expect(refused.code).toBe('rate_limited')
    expect(refused.facts).toEqual({ retry_after_ms: 250 })
    limitsClock.advance(249)
    expect(refusal(() => take('alice', 1)).facts.retry_after_ms).toBe(1)
    limitsClock.advance(1)
    expect(take('alice', 1).remaining).toBe(0)
    limitsClock.advance(3_600_000)
    expect(take('alice', 0.2).remaining).toBe(9)
  })

  test('is each account’s own', () => {
    edge.admit('bob', { rate_capacity: 1, rate_refill_per_s: 1 })
    edge.admit('carol', { rate_capacity: 1, rate_refill_per_s: 1 })
    take('bob', 1)
    expect(refusal(() => take('bob', 1)).code).toBe('rate_limited')
    expect(take('carol', 1).remaining).toBe(0)
  })

  test('is not spent by a credential that only reads, which has one of the same size', () => {
    edge.admit('erin', { rate_capacity: 2, rate_refill_per_s: 1 })
    expect(take('erin', 2, 'read').remaining).toBe(0)
    expect(refusal(() => take('erin', 1, 'read')).code).toBe('rate_limited')
    expect(take('erin', 2).remaining).toBe(0)
  })

  test('is charged the actual cost of a read, also below zero, and refills from there', () => {
    edge.admit('frank', { rate_capacity: 10, rate_refill_per_s: 1 })
    const charge = (units: number) =>
      accounts.chargeRead({ account_id: accountId('frank'), access: 'trade' }, units)
    expect(charge(500)).toEqual({ capacity: 10, refill_per_s: 1, remaining: 8, retry_after_ms: 0 })
    expect(charge(3_000).remaining).toBe(-4)
    expect(refusal(() => take('frank', 0.2)).facts).toEqual({ retry_after_ms: 4_200 })
    limitsClock.advance(4_200)
    expect(take('frank', 0.2).remaining).toBe(0)
    expect(refusal(() => accounts.chargeRead({ account_id: 'nobody', access: 'trade' }, 1)).code).toBe(
      'token_invalid',
    )
  })

  test('follows a newer record without refunding spent tokens', () => {
    edge.admit('dave', { rate_capacity: 10, rate_refill_per_s: 1 })
    for (let at = 0; at < 8; at++) take('dave', 1)
    edge.admit('dave', { version: 2, rate_capacity: 12, rate_refill_per_s: 1 })
    expect(take('dave', 1)).toMatchObject({ capacity: 12, remaining: 3 })
    expect(take('dave', 3).remaining).toBe(0)
    expect(refusal(() => take('dave', 1)).facts).toEqual({ retry_after_ms: 1_000 })
    edge.admit('dave', { version: 3, rate_capacity: 12_012, rate_refill_per_s: 1 })
    expect(take('dave', 12_000).remaining).toBe(0)
    expect(refusal(() => take('dave', 0.001)).code).toBe('rate_limited')
    limitsClock.advance(86_400_000)
    expect(take('dave', 1).remaining).toBe(12_011)
  })

  test('of an unknown account does not exist', () => {
    expect(refusal(() => take('nobody', 1)).code).toBe('token_invalid')
  })
})

const site = new TestSite()
afterAll(() => site.remove())

test('accounts are listed by id with their newest terms, once these are durable', async () => {
  const open = await site.open()
  await Trader.provisioned(open, 'bob', { keys_max: 3 })
  await Trader.provisioned(open, 'alice')
  const limits = { ...DEFAULT_LIMITS, orders_live_max: 1000, keys_max: 100 }
  const listed = (name: string) => ({
    account_id: accountId(name),
    account_key: encodeBase58(publicKeyOf(accountSeed(name))),
    version: 1,
    state: 'active' as const,
    limits,
  })
  const bob: AccountSummary = { ...listed('bob'), limits: { ...limits, keys_max: 3 } }
  const expected = [listed('alice'), bob].sort((a, b) => (a.account_id < b.account_id ? -1 : 1))
  expect(await open.venue.listAccounts()).toEqual(expected)
  await open.venue.provision({ account_id: 'bob', version: 2, state: 'suspended' })
  const now = (await open.venue.listAccounts()).find(({ account_id }) => account_id === accountId('bob'))
  expect(now).toEqual({ ...bob, version: 2, state: 'suspended', limits: DEFAULT_LIMITS })

  const { sequencer } = open.engine
  await sequencer.durable()
  const closing = open.venue.provision({ account_id: 'bob', version: 3, state: 'closed' })
  while (sequencer.seq_durable === sequencer.seq_executed) await new Promise(setImmediate)
  const seq = sequencer.seq_executed
  expect(await open.venue.listAccounts()).toContainEqual(
    expect.objectContaining({ version: 3, state: 'closed' }),
  )
  expect(sequencer.seq_durable).toBeGreaterThanOrEqual(seq)
  await closing
})
