/** Logins: which credentials open, how wrong ones are answered, and what bounds them. */
import { afterAll, describe, expect, test } from 'bun:test'
import { LIMITS } from '../../../engine/limits'
import { rotateAccount, setStatus } from '../../../tools/account/issue_account'
import { codeOf, issued, NOW_MS, OPERATOR_SEED, openTestAccounts, provisioned } from './venue_operator'

const { accounts, clock } = await openTestAccounts()
afterAll(() => accounts.close())
const { credentials, record } = await provisioned(accounts, 'alice')
const wrong_secret = { ...credentials, api_secret: 'f'.repeat(64) }

describe('a login', () => {
  test('with the right credentials gives a token of its account', async () => {
    const answer = await accounts.login(credentials)
    expect(answer).toMatchObject({ token_type: 'Bearer', expires_in: 900, account_id: 'alice' })
    expect(answer.access_token).toMatch(/^[A-Za-z0-9_-]{43}$/)
    expect(accounts.authenticate(answer.access_token).account_id).toBe('alice')
  })

  test('with an unknown key, a wrong secret or a wrong passphrase is credentials_invalid', async () => {
    const { credentials: unknown } = await issued('nobody')
    const attempts = [
      unknown,
      wrong_secret,
      { ...credentials, api_secret: '' },
      { ...credentials, api_secret: credentials.api_secret.slice(1) },
      { ...credentials, passphrase: '' },
      { ...credentials, passphrase: `${credentials.passphrase}x` },
    ]
    for (const attempt of attempts)
      expect(await codeOf(() => accounts.login(attempt))).toBe('credentials_invalid')
    clock.advance(60_000)
  })

  test('with wrong credentials again and again is login_limited, and right ones are never blocked', async () => {
    const codes = new Set<string>()
    for (let at = 0; at < 12; at++) codes.add(await codeOf(() => accounts.login(wrong_secret)))
    expect([...codes]).toEqual(['credentials_invalid', 'login_limited'])
    expect((await accounts.login(credentials)).account_id).toBe('alice')
    clock.advance(1_000)
    expect(await codeOf(() => accounts.login(wrong_secret))).toBe('credentials_invalid')
    expect(await codeOf(() => accounts.login(wrong_secret))).toBe('login_limited')
    clock.advance(60_000)
  })

  test('beyond the bound on passphrase checks is login_busy, per account and over all', async () => {
    const others = await Promise.all(['b1', 'b2', 'b3', 'b4'].map((id) => provisioned(accounts, id)))
    const all = [credentials, ...others.map((other) => other.credentials)]
    const attempts = all.flatMap((request) =>
      Array.from({ length: 5 }, () => codeOf(() => accounts.login(request))),
    )
    const codes = await Promise.all(attempts)
    expect(codes.slice(0, 5)).toEqual([...Array(4).fill('not refused'), 'login_busy'])
    expect(codes.filter((code) => code === 'not refused').length).toBe(LIMITS.logins_waiting_max)
    expect(codes.filter((code) => code === 'login_busy').length).toBe(25 - LIMITS.logins_waiting_max)
  })

  test('without the secret never reaches the passphrase check', async () => {
    const attempts = Array.from({ length: 50 }, () => codeOf(() => accounts.login(wrong_secret)))
    expect(await Promise.all(attempts)).not.toContain('login_busy')
    clock.advance(60_000)
  })

  test('works with rotated credentials only, and rotation ends the old tokens', async () => {
    const { credentials: old, record: first } = await provisioned(accounts, 'rotated')
    const { access_token } = await accounts.login(old)
    const { credentials: fresh, record: second } = await rotateAccount(first, OPERATOR_SEED, NOW_MS)
    accounts.applyRecord(accounts.verifyRecord(second))
    expect(await codeOf(() => accounts.authenticate(access_token))).toBe('token_revoked')
    expect(await codeOf(() => accounts.login(old))).toBe('credentials_invalid')
    expect((await accounts.login(fresh)).account_id).toBe('rotated')
  })

  test('that waits while its credentials are rotated away fails', async () => {
    const { credentials: old, record: first } = await provisioned(accounts, 'racing')
    const { record: second } = await rotateAccount(first, OPERATOR_SEED, NOW_MS)
    const waiting = codeOf(() => accounts.login(old))
    accounts.applyRecord(accounts.verifyRecord(second))
    expect(await waiting).toBe('credentials_invalid')
  })

  test('of a suspended account works, but its earlier tokens end', async () => {
    const { access_token } = await accounts.login(credentials)
    accounts.applyRecord(accounts.verifyRecord(setStatus(record, 'suspended', OPERATOR_SEED, NOW_MS)))
    expect(await codeOf(() => accounts.authenticate(access_token))).toBe('token_revoked')
    expect((await accounts.login(credentials)).account_id).toBe('alice')
  })
})
