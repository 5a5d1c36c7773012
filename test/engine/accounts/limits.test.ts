/** The token bucket of an account, by the monotonic clock. */
import { afterAll, describe, expect, test } from 'bun:test'
import { signAccountRecord } from '../../../protocol/bodies/account_record'
import type { Refusal } from '../../../protocol/refusals'
import { OPERATOR_SEED, openTestAccounts, provisioned } from './venue_operator'

const { accounts, clock } = await openTestAccounts()
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
  test('is its capacity at once, then its refill', async () => {
    await provisioned(accounts, 'alice', { rate_capacity: 10, rate_refill_per_s: 4 })
    for (let at = 9; at >= 0; at--) {
      const state = accounts.takeLimit('alice', 1)
      expect(state).toEqual({ capacity: 10, refill_per_s: 4, remaining: at, retry_after_ms: 0 })
    }
    const refused = refusal(() => accounts.takeLimit('alice', 1))
    expect(refused.code).toBe('rate_limited')
    expect(refused.facts).toEqual({ retry_after_ms: 250 })
    clock.advance(249)
    expect(refusal(() => accounts.takeLimit('alice', 1)).facts.retry_after_ms).toBe(1)
    clock.advance(1)
    expect(accounts.takeLimit('alice', 1).remaining).toBe(0)
    clock.advance(3_600_000)
    expect(accounts.takeLimit('alice', 0.2).remaining).toBe(9)
  })

  test('is each account’s own', async () => {
    await provisioned(accounts, 'bob', { rate_capacity: 1, rate_refill_per_s: 1 })
    await provisioned(accounts, 'carol', { rate_capacity: 1, rate_refill_per_s: 1 })
    accounts.takeLimit('bob', 1)
    expect(refusal(() => accounts.takeLimit('bob', 1)).code).toBe('rate_limited')
    expect(accounts.takeLimit('carol', 1).remaining).toBe(0)
  })

  test('follows a newer record without giving back what was spent', async () => {
    const { record } = await provisioned(accounts, 'dave', { rate_capacity: 10, rate_refill_per_s: 1 })
    for (let at = 0; at < 8; at++) accounts.takeLimit('dave', 1)
    const { record: _, signature: __, ...fields } = record
    const next = signAccountRecord({ ...fields, version: 2, rate_capacity: 12 }, OPERATOR_SEED)
    accounts.applyRecord(accounts.verifyRecord(next))
    expect(accounts.takeLimit('dave', 1)).toMatchObject({ capacity: 12, remaining: 3 })
  })

  test('of an unknown account does not exist', () => {
    expect(refusal(() => accounts.takeLimit('nobody', 1)).code).toBe('token_invalid')
  })
})
