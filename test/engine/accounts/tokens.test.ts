/** Tokens: how long they live, how they end and who hears of it. */
import { beforeEach, describe, expect, test } from 'bun:test'
import { newToken, Tokens } from '../../../engine/accounts/tokens'
import { LIMITS } from '../../../engine/limits'
import { codeOf, type TestClock, testClock } from './venue_operator'

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

  test('tells its listeners once when it expires, is revoked, or is dead already', async () => {
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
