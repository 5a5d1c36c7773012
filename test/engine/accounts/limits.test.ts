/** The token bucket of an account, by the monotonic clock. */
import { afterAll, describe, expect, test } from 'bun:test'
import type { Refusal } from '../../../protocol/refusals'
import { accountId } from '../../kit/venue/test_login'
import { AccountSite } from './venue_operator'

const site = new AccountSite()
const { accounts, clock } = site
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
    site.admit('alice', { rate_capacity: 10, rate_refill_per_s: 4 })
    for (let at = 9; at >= 0; at--) {
      const state = take('alice', 1)
      expect(state).toEqual({ capacity: 10, refill_per_s: 4, remaining: at, retry_after_ms: 0 })
    }
    const refused = refusal(() => take('alice', 1))
    expect(refused.code).toBe('rate_limited')
    expect(refused.facts).toEqual({ retry_after_ms: 250 })
    clock.advance(249)
    expect(refusal(() => take('alice', 1)).facts.retry_after_ms).toBe(1)
    clock.advance(1)
    expect(take('alice', 1).remaining).toBe(0)
    clock.advance(3_600_000)
    expect(take('alice', 0.2).remaining).toBe(9)
  })

  test('is each account’s own', () => {
    site.admit('bob', { rate_capacity: 1, rate_refill_per_s: 1 })
    site.admit('carol', { rate_capacity: 1, rate_refill_per_s: 1 })
    take('bob', 1)
    expect(refusal(() => take('bob', 1)).code).toBe('rate_limited')
    expect(take('carol', 1).remaining).toBe(0)
  })

  test('is not spent by a credential that only reads, which has one of the same size', () => {
    site.admit('erin', { rate_capacity: 2, rate_refill_per_s: 1 })
    expect(take('erin', 2, 'read').remaining).toBe(0)
    expect(refusal(() => take('erin', 1, 'read')).code).toBe('rate_limited')
    expect(take('erin', 2).remaining).toBe(0)
  })

  test('is charged for what a read turned out to cost, also below zero, and refills from there', () => {
    site.admit('frank', { rate_capacity: 10, rate_refill_per_s: 1 })
    const charge = (units: number) =>
      accounts.chargeRead({ account_id: accountId('frank'), access: 'trade' }, units)
    expect(charge(500)).toEqual({ capacity: 10, refill_per_s: 1, remaining: 8, retry_after_ms: 0 })
    expect(charge(3_000).remaining).toBe(-4)
    expect(refusal(() => take('frank', 0.2)).facts).toEqual({ retry_after_ms: 4_200 })
    clock.advance(4_200)
    expect(take('frank', 0.2).remaining).toBe(0)
    expect(refusal(() => accounts.chargeRead({ account_id: 'nobody', access: 'trade' }, 1)).code).toBe(
      'token_invalid',
    )
  })

  test('follows a newer record without giving back what was spent', () => {
    site.admit('dave', { rate_capacity: 10, rate_refill_per_s: 1 })
    for (let at = 0; at < 8; at++) take('dave', 1)
    site.admit('dave', { version: 2, rate_capacity: 12, rate_refill_per_s: 1 })
    expect(take('dave', 1)).toMatchObject({ capacity: 12, remaining: 3 })
    expect(take('dave', 3).remaining).toBe(0)
    expect(refusal(() => take('dave', 1)).facts).toEqual({ retry_after_ms: 1_000 })
    site.admit('dave', { version: 3, rate_capacity: 12_012, rate_refill_per_s: 1 })
    expect(take('dave', 12_000).remaining).toBe(0)
    expect(refusal(() => take('dave', 0.001)).code).toBe('rate_limited')
    clock.advance(86_400_000)
    expect(take('dave', 1).remaining).toBe(12_011)
  })

  test('of an unknown account does not exist', () => {
    expect(refusal(() => take('nobody', 1)).code).toBe('token_invalid')
  })
})
