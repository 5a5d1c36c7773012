/** Logins: valid and wrong credentials, bounds, and the account's view of its logins. */
import { afterAll, describe, expect, test } from 'bun:test'
import { newCredential, revokeCredential } from '../../../client/wallet/account'
import { Passphrases } from '../../../engine/accounts/login'
import { LIMITS } from '../../../engine/limits'
import { Refusal } from '../../../protocol/refusals'
import type { TokenRequest } from '../../../protocol/wire/trading'
import { accountId, accountSeed, testCredential } from '../../kit/venue/test_login'
import { AccountSite, codeOf, NOW_MS } from './venue_operator'

const VENUE = new Uint8Array(32).fill(6)
const site = new AccountSite()
const { accounts, clock, world } = site
afterAll(() => accounts.close())
const credentials = site.opened('alice')
const wrong_secret = { ...credentials, api_secret: 'f'.repeat(64) }
const ALICE = accountId('alice')
const changesOf = (name: string) =>
  world.state.accounts.get(accountId(name))!.changes.map((one) => one.change)

describe('a login', () => {
  test('with the right credentials gives a token of its account, and is an event of it', async () => {
    const before = world.events.length
    const answer = await accounts.login(credentials)
    expect(answer).toMatchObject({ token_type: 'Bearer', expires_in: 900, account_id: ALICE })
    expect(answer.access_token).toMatch(/^[A-Za-z0-9_-]{43}$/)
    expect(accounts.authenticate(answer.access_token)).toMatchObject({ account_id: ALICE, access: 'trade' })
    expect(world.events.slice(before)).toMatchObject([
      { account_id: ALICE, event: { kind: 'account.changed', data: { change: 'login', version: 1 } } },
    ])
    expect(world.events.at(-1)!.event.data).toMatchObject({ credential_id: credentials.api_key })
  })

  test('with secrets that the client’s own command made opens too', async () => {
    const terms = { kind: 'trade', version: 9, expiry_s: 0 } as const
    const made = await newCredential(accountSeed('alice'), VENUE, terms)
    expect(made.login.api_secret).toMatch(/^[0-9a-f]{64}$/)
    expect(made.login.passphrase).toMatch(/^([a-km-np-z2-9]{5}-){5}[a-km-np-z2-9]$/)
    // Both halves of the 32 letters occur, and more than a few of them: 26 draws miss that once in millions.
    expect(made.login.passphrase).toMatch(/[a-km-np-r]/)
    expect(made.login.passphrase).toMatch(/[s-z2-9]/)
    expect(new Set(made.login.passphrase).size).toBeGreaterThan(8)
    for (const secret of [made.login.api_secret, made.login.passphrase])
      expect(JSON.stringify(made.request)).not.toContain(secret)
    site.set(made.request)
    expect((await accounts.login(made.login)).account_id).toBe(ALICE)
    const { credential_id } = made.request
    site.set(revokeCredential(accountSeed('alice'), VENUE, { credential_id, version: 10 }))
    expect(await codeOf(() => accounts.login(made.login))).toBe('credentials_invalid')
  }, 120_000)

  test('with an unknown key, a wrong secret or a wrong passphrase is credentials_invalid, and no event', async () => {
    const before = world.events.length
    const attempts = [
      testCredential('nobody', VENUE).login,
      wrong_secret,
      { ...credentials, api_secret: '' },
      { ...credentials, api_secret: credentials.api_secret.slice(1) },
      { ...credentials, passphrase: '' },
      { ...credentials, passphrase: `${credentials.passphrase}x` },
    ]
    for (const attempt of attempts)
      expect(await codeOf(() => accounts.login(attempt))).toBe('credentials_invalid')
    expect(world.events.length).toBe(before)
    clock.advance(60_000)
  })

  test('with wrong credentials again and again is login_limited, and right ones are never blocked', async () => {
    const codes = new Set<string>()
    for (let at = 0; at < 12; at++) codes.add(await codeOf(() => accounts.login(wrong_secret)))
    expect([...codes]).toEqual(['credentials_invalid', 'login_limited'])
    expect((await accounts.login(credentials)).account_id).toBe(ALICE)
    clock.advance(1_000)
    expect(await codeOf(() => accounts.login(wrong_secret))).toBe('credentials_invalid')
    expect(await codeOf(() => accounts.login(wrong_secret))).toBe('login_limited')
    clock.advance(60_000)
  })

  test('of a flooded credential leaves room: it has few places in the queue, and another comes before all but the running one', async () => {
    const other = site.opened('other')
    const done: string[] = []
    const flood = Array.from({ length: 500 }, () =>
      codeOf(() => accounts.login(credentials)).then((code) => done.push(code)),
    )
    const login = accounts.login(other).then(() => done.push('other'))
    await Promise.all([...flood, login])
    const passed = done.filter((code) => code !== 'login_busy')
    expect(passed).toEqual(['not refused', 'other', 'not refused'])
    expect(done.length).toBe(501)
  })

  test('of a credential that others flood around waits for the one check that runs, however many they are', async () => {
    const crowd = new AccountSite()
    const floods = Array.from({ length: 6 }, (_, at) => crowd.opened(`flood ${at}`))
    const calm = crowd.opened('calm')
    const wrong = (at: number) => ({ ...floods[at % 6]!, passphrase: `wrong ${at}` })
    // Each is checked once before, as those of a flood are.
    for (let at = 0; at < 6; at++) await codeOf(() => crowd.accounts.login(wrong(at)))
    const done: string[] = []
    const flood = Array.from({ length: 80 }, (_, at) =>
      codeOf(() => crowd.accounts.login(wrong(at))).then((code) => done.push(code)),
    )
    const login = crowd.accounts.login(calm).then(() => done.push('calm'))
    await login
    expect(done.filter((code) => code !== 'login_busy')).toEqual(['credentials_invalid', 'calm'])
    crowd.accounts.close()
    await Promise.all(flood)
  })

  test('of one credential does not take the places of another of the account', async () => {
    const reading = site.credential('alice', { version: 12, kind: 'read', credential_id: 'ab'.repeat(16) })
    const flood = Array.from({ length: 80 }, () =>
      codeOf(() => accounts.login({ ...reading, passphrase: 'x' })),
    )
    expect((await accounts.login(credentials)).account_id).toBe(ALICE)
    await Promise.all(flood)
    clock.advance(60_000)
  })

  test('beyond the bound on all passphrase checks is login_busy with a wait, but for a credential that was checked longer ago', async () => {
    const full = new AccountSite()
    const each = LIMITS.credential_logins_waiting_max
    const logins = Array.from({ length: LIMITS.logins_waiting_max / each }, (_, at) =>
      full.opened(`full ${at}`),
    )
    const [calm, late] = [full.opened('calm'), full.opened('late')]
    // The first one is under way: the second of its credential waits.
    const retry_after_ms = LIMITS.logins_waiting_max * LIMITS.login_check_ms
    const busy = { code: 'login_busy', facts: { retry_after_ms } }
    const waiting = logins.flatMap((login) =>
      Array.from({ length: each }, () => full.accounts.login(login).catch((refusal: Refusal) => refusal)),
    )
    const taking = codeOf(() => full.accounts.login(calm))
    expect(full.accounts.login(late)).rejects.toMatchObject(busy)
    expect(full.accounts.login(logins[0]!)).rejects.toMatchObject(busy)
    // Ends the worker under them: waiting logins are answered, and the next one starts another worker.
    full.accounts.close()
    const [ended, displaced, ...others] = await Promise.all(waiting)
    expect(displaced).toMatchObject(busy)
    expect(others.length).toBe(LIMITS.logins_waiting_max - 2)
    for (const one of [ended, ...others]) expect(one).toMatchObject({ code: 'internal' })
    expect(await taking).toBe('internal')
    expect((await full.accounts.login(logins[0]!)).account_id).toBe(accountId('full 0'))
    full.accounts.close()
  })

  test('of a credential whose last check is no longer kept counts as never checked', async () => {
    const { credentials_checked_max } = LIMITS
    Object.assign(LIMITS, { credentials_checked_max: 1 })
    const forgetful = new AccountSite()
    const [old, last, fresh] = ['old', 'last', 'fresh'].map((name) => forgetful.opened(name)) as [
      TokenRequest,
      TokenRequest,
      TokenRequest,
    ]
    for (const login of [old, last]) await forgetful.accounts.login(login)
    const done: string[] = []
    const named = (login: TokenRequest, name: string) =>
      forgetful.accounts.login(login).then(() => done.push(name))
    await Promise.all([named(last, 'last'), named(old, 'old'), named(fresh, 'fresh')])
    expect(done).toEqual(['last', 'old', 'fresh'])
    forgetful.accounts.close()
    Object.assign(LIMITS, { credentials_checked_max })
  })

  test('is checked to its end in a process that does nothing else', async () => {
    const { login, request } = testCredential('alone', VENUE)
    const source = new URL('../../../engine/accounts/login.ts', import.meta.url).href
    const script = `
      const { passphrase_digest, salt } = ${JSON.stringify(request)}
      const bytes = (hex) => Uint8Array.fromHex(hex)
      const credential = { credential_id: 'a', passphrase_digest: bytes(passphrase_digest), salt: bytes(salt) }
      import('${source}').then(async ({ Passphrases }) => {
        const passphrases = new Passphrases()
        for (const _ of [1, 2]) console.log(await passphrases.check('${login.passphrase}', credential))
      })`
    const child = Bun.spawn([process.execPath, '-e', script], { stdout: 'pipe' })
    expect(await new Response(child.stdout).text()).toBe('true\ntrue\n')
    expect(await child.exited).toBe(0)
  })

  test('whose check fails in the worker is internal, and the next one has a worker again', async () => {
    const short = {
      ...world.state.accounts.get(ALICE)!.credentials[0]!,
      passphrase_digest: new Uint8Array(31),
    }
    const passphrases = new Passphrases()
    expect(await codeOf(() => passphrases.check(credentials.passphrase, short))).toBe('internal')
    const whole = world.state.accounts.get(ALICE)!.credentials[0]!
    expect(await passphrases.check(credentials.passphrase, whole)).toBe(true)
    passphrases.close()
  })

  test('without the secret never reaches the passphrase check', async () => {
    const attempts = Array.from({ length: 50 }, () => codeOf(() => accounts.login(wrong_secret)))
    expect(await Promise.all(attempts)).not.toContain('login_busy')
    clock.advance(60_000)
  })

  test('works with the replaced credential only, and the replacement ends the old tokens', async () => {
    const old = site.opened('rotated')
    const { access_token } = await accounts.login(old)
    const fresh = site.credential('rotated', { version: 2 })
    expect(await codeOf(() => accounts.authenticate(access_token))).toBe('token_revoked')
    expect(await codeOf(() => accounts.login(old))).toBe('credentials_invalid')
    expect((await accounts.login(fresh)).account_id).toBe(accountId('rotated'))
    expect(changesOf('rotated')).toEqual(['admission', 'credential', 'login', 'credential', 'login'])
  })

  test('is journaled with the hash of its token; a revocation that cannot be journaled holds at once and is journaled later', async () => {
    const { token_end_retry_ms } = LIMITS
    Object.assign(LIMITS, { token_end_retry_ms: 5 })
    const { access_token } = await accounts.login(site.opened('leaving'))
    const session = accounts.authenticate(access_token)
    const journaled = () => world.state.accounts.get(accountId('leaving'))!.tokens
    expect(journaled()).toEqual([
      {
        token_id: session.token_id,
        credential_id: session.credential_id,
        until_ms: clock.unixMs() + 900_000,
      },
    ])
    let attempts = 0
    site.ending = () => {
      if (++attempts < 3) throw new Refusal('lease_lost')
    }
    expect(await codeOf(() => accounts.revoke(session))).toBe('lease_lost')
    expect(await codeOf(() => accounts.authenticate(access_token))).toBe('token_revoked')
    expect(journaled()).toHaveLength(1)
    while (journaled().length > 0) await Bun.sleep(1)
    expect(attempts).toBe(3)
    site.ending = () => undefined
    Object.assign(LIMITS, { token_end_retry_ms })
  })

  test('that waits while its credential is replaced fails, before and after it is journaled', async () => {
    const old = site.opened('racing')
    const waiting = codeOf(() => accounts.login(old))
    site.credential('racing', { version: 2, secret_hash: '11'.repeat(32) })
    expect(await waiting).toBe('credentials_invalid')

    const late = site.opened('later')
    site.meanwhile = () => void site.credential('later', { version: 2 })
    expect(await codeOf(() => accounts.login(late))).toBe('credentials_invalid')
    site.meanwhile = () => undefined
    expect(changesOf('later').slice(-2)).toEqual(['login', 'credential'])
  })

  test('of a credential that expires lives no longer than it, by the clock of the chain', async () => {
    site.admit('ending')
    const expiry_s = NOW_MS / 1_000 + Math.floor((clock.unixMs() - NOW_MS) / 1_000) + 60
    const login = site.credential('ending', { expiry_s })
    expect((await accounts.login(login)).expires_in).toBe(60)
    clock.advance(59_000)
    const { access_token } = await accounts.login(login)
    clock.advance(1_000)
    expect(await codeOf(() => accounts.login(login))).toBe('credential_expired')
    expect(await codeOf(() => accounts.authenticate(access_token))).toBe('token_expired')

    // Within a second: the rest of it is no part of the life.
    const next = site.credential('ending', { version: 2, expiry_s: expiry_s + 10 })
    clock.advance(7_700)
    const late = await accounts.login(next)
    expect(late.expires_in).toBe(2)
    clock.advance(2_300)
    expect(await codeOf(() => accounts.authenticate(late.access_token))).toBe('token_expired')
    const last = site.credential('ending', { version: 3, expiry_s: expiry_s + 11 })
    clock.advance(300)
    expect(await codeOf(() => accounts.login(last))).toBe('credential_expired')
  })

  test('of a suspended or closed account works, and its tokens stay: it may cancel, withdraw and read', async () => {
    const { access_token } = await accounts.login(credentials)
    for (const [version, state] of [
      [2, 'suspended'],
      [3, 'closed'],
    ] as const) {
      site.admit('alice', { version, state })
      expect(accounts.authenticate(access_token).account_id).toBe(ALICE)
      expect((await accounts.login(credentials)).account_id).toBe(ALICE)
    }
  })

  test('a socket is not taken over by a token of another account or of a credential that only reads', async () => {
    const own = site.opened('socket')
    const reading = site.credential('socket', { version: 2, kind: 'read', credential_id: 'ee'.repeat(16) })
    const [trade, read] = [await accounts.login({ ...own }), await accounts.login({ ...reading })]
    const other = await accounts.login(credentials)
    const session = accounts.authenticate(trade.access_token)
    expect(accounts.authenticate(read.access_token).access).toBe('read')
    for (const { access_token } of [read, other])
      expect(await codeOf(() => accounts.refresh(session, access_token))).toBe('token_invalid')
    expect(accounts.refresh(session, (await accounts.login(own)).access_token).access).toBe('trade')
  })
})
