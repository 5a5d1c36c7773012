/** Calls to the operator's listener are signed for this venue and count once; an operator with every key reads no sealed order. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { revokeCredential, signCredential } from '../../../client/wallet/account'
import { type OperatorCall, openOperatorCheck } from '../../../engine/accounts/verify_operator'
import { LIMITS } from '../../../engine/limits'
import { encodeBase58 } from '../../../protocol/base58'
import { REBIND_BODY } from '../../../protocol/bodies/account'
import {
  OPERATOR_HEADERS,
  type OperatorRequest,
  operatorHeaders,
  operatorRequestBytes,
  scrapeToken,
  scrapeTokenBytes,
} from '../../../protocol/bodies/signed_calls'
import { fromHex, toHex, utf8 } from '../../../protocol/bytes'
import { OPERATOR_CALL_LIFE_MAX_S, SCRAPE_TOKEN_LIFE_MAX_S } from '../../../protocol/limits'
import { sha256 } from '../../../protocol/sha256'
import { publicKeyOf, sign } from '../../../protocol/sign'
import type { CredentialRequest, TokenRequest } from '../../../protocol/wire/trading'
import { USDC } from '../../../sandbox/environment'
import { EmbeddedTrading } from '../../kit/venue/embedded_site'
import { refusalOf } from '../../kit/venue/refusal_of'
import {
  accountId,
  accountSeed,
  OPERATOR_SEED as SITE_OPERATOR_SEED,
  testCredential,
} from '../../kit/venue/test_login'
import type { Trader } from '../../kit/venue/trader'
import { codeOf, NOW_MS, OPERATOR_KEY, OPERATOR_SEED, testClock } from './venue_operator'

const venue = new Uint8Array(32).fill(5)
const request: OperatorRequest = {
  venue,
  nonce: BigInt(NOW_MS + 1),
  expiry_unix_s: NOW_MS / 1000 + 60,
  method: 'POST',
  target: '/accounts?dry=1',
  body: utf8('{"a":1}'),
}

function check() {
  return openOperatorCheck({ operator_key: OPERATOR_KEY, venue, clock: testClock() })
}

/** The call as it arrives, signed as `signed` and sent as `sent`. */
function call(signed: Partial<OperatorRequest> = {}, sent: Partial<OperatorRequest> = {}): OperatorCall {
  const headers = operatorHeaders({ ...request, ...signed }, OPERATOR_SEED)
  const { body, method, target } = { ...request, ...signed, ...sent }
  return { body, method, target, header: (name) => headers[name] ?? null }
}

describe('an operator call', () => {
  test('is signed over exactly 136 bytes', () => {
    const bytes = operatorRequestBytes({ ...request, nonce: 2n, expiry_unix_s: 3 })
    expect(bytes.length).toBe(136)
    const hash = (value: Uint8Array) => toHex(sha256(value))
    const fixed = [
      Buffer.from('tacit/operator/1').toString('hex'),
      toHex(venue),
      '0200000000000000',
      '0300000000000000',
    ]
    const method = Buffer.from('POST').toString('hex').padEnd(16, '0')
    expect(toHex(bytes)).toBe([...fixed, method, hash(utf8(request.target)), hash(request.body)].join(''))
  })

  test('is taken once', async () => {
    const verify = check()
    verify(call())
    expect(await codeOf(() => verify(call()))).toBe('operator_signature_invalid')
    verify(call({ nonce: request.nonce + 1n }))
  })

  test('recorded before the venue started is void', async () => {
    const verify = check()
    expect(await codeOf(() => verify(call({ nonce: BigInt(NOW_MS) })))).toBe('operator_signature_invalid')
  })

  test('is refused past its expiry, or with one too far ahead', async () => {
    for (const expiry_unix_s of [NOW_MS / 1000, NOW_MS / 1000 + OPERATOR_CALL_LIFE_MAX_S + 1]) {
      const verify = check()
      expect(await codeOf(() => verify(call({ expiry_unix_s })))).toBe('operator_signature_invalid')
    }
  })

  test('is refused when method, target, body or venue is not what was signed, and uses up no nonce', async () => {
    const verify = check()
    const wrong = [
      call({}, { method: 'GET' }),
      call({}, { target: '/drain' }),
      call({}, { body: utf8('{"a":2}') }),
      call({ venue: new Uint8Array(32) }),
      { ...call(), header: () => null },
    ]
    for (const attempt of wrong)
      expect(await codeOf(() => verify(attempt))).toBe('operator_signature_invalid')
    verify(call())
  })

  test('carries its three headers, none of which may be absent or malformed', async () => {
    const names = Object.values(OPERATOR_HEADERS)
    expect(Object.keys(operatorHeaders(request, OPERATOR_SEED))).toEqual(names)
    for (const name of names) {
      for (const value of [null, 'x', '']) {
        const header = (one: string) => (one === name ? value : call().header(one))
        expect(await codeOf(() => check()({ ...call(), header }))).toBe('operator_signature_invalid')
      }
    }
  })

  test('is judged by a whole key only', () => {
    for (const operator_key of ['', OPERATOR_KEY.slice(0, 40), `${OPERATOR_KEY}1`])
      expect(() => openOperatorCheck({ operator_key, venue, clock: testClock() })).toThrow('operator_key')
  })
})

describe('a scrape token', () => {
  const expiry = NOW_MS / 1000 + 60
  const scrape = (token: string, sent: Partial<OperatorCall> = {}) =>
    codeOf(() =>
      check()({
        method: 'GET',
        target: '/metrics',
        body: new Uint8Array(),
        header: (name) => (name === 'authorization' ? `Bearer ${token}` : null),
        ...sent,
      }),
    )
  const refused = 'operator_signature_invalid'
  const good = scrapeToken(venue, expiry, OPERATOR_SEED)

  test('is signed over exactly 56 bytes, with its own domain', () => {
    expect(toHex(scrapeTokenBytes({ venue, expiry_unix_s: 3 }))).toBe(
      `${toHex(utf8('tacit/scrape/001'))}${toHex(venue)}0300000000000000`,
    )
  })

  test('reads metrics again and again, until it expires', async () => {
    const verify = check()
    const header = (name: string) => (name === 'authorization' ? `Bearer ${good}` : null)
    for (let time = 0; time < 3; time++)
      verify({ method: 'GET', target: '/metrics', body: new Uint8Array(), header })
    for (const at of [NOW_MS / 1000 + 1, NOW_MS / 1000 + SCRAPE_TOKEN_LIFE_MAX_S])
      expect(await scrape(scrapeToken(venue, at, OPERATOR_SEED))).toBe('not refused')
    for (const at of [NOW_MS / 1000, NOW_MS / 1000 + SCRAPE_TOKEN_LIFE_MAX_S + 1])
      expect(await scrape(scrapeToken(venue, at, OPERATOR_SEED))).toBe(refused)
  })

  test('does nothing else, and no other key, venue or expiry makes one', async () => {
    const calls = [
      { method: 'POST', target: '/drain' },
      { target: '/accounts' },
      { target: '/metrics?all' },
      { method: 'POST' },
    ]
    for (const sent of calls) expect([sent, await scrape(good, sent)]).toEqual([sent, refused])
    const forged = [
      scrapeToken(venue, expiry, new Uint8Array(32).fill(99)),
      scrapeToken(new Uint8Array(32), expiry, OPERATOR_SEED),
      good.replace(String(expiry), String(expiry + 1)),
      good.slice(0, -2),
      `0${good}`,
      '',
    ]
    for (const token of forged) expect([token, await scrape(token)]).toEqual([token, refused])
  })
})

/**
 * An operator with every key that an operator has, its tools and a separate account tries to read a trader's sealed orders
 * or to act for the trader. Each attempt is rejected or is an event that the trader sees.
 */

const world = new EmbeddedTrading()
const { site } = world
let carol: Trader
let carols: TokenRequest
let order_id: string
/** The body that carol gave to the operator. */
let given: CredentialRequest
const venueId = () => fromHex(site.venue.identity().venue, 32)!
const CAROL_KEY = encodeBase58(publicKeyOf(accountSeed('carol')))
const post = (request: CredentialRequest) => refusalOf(site.venue.setCredential(undefined, request))
const changes = async () => (await site.venue.account('carol')).changes.map((one) => one.change)

beforeAll(async () => {
  await world.open()
  carols = await site.issue('carol')
  given = testCredential('carol', venueId()).request
  await site.issue('operator')
  carol = world.trader('carol')
  const money = await world.deposited(carol, USDC, 900_000_000n)
  const expiry_slot = site.venue.time().slot + 9_000
  const terms = { amount: '1000000', price_limit: '91230000', expiry_slot }
  order_id = (await site.venue.place('carol', carol.place(money, terms))).order_id
}, 180_000)
afterAll(() => site.remove())

test('self-made credentials for the trader’s account are refused', async () => {
  const fields = testCredential('carol', venueId(), { version: 2 }).request
  const { account_key: _, signature: __, ...terms } = fields
  // Signed with the operator key, with an own account key, and a trader's body changed after signing.
  const forged = { ...signCredential(SITE_OPERATOR_SEED, venueId(), terms), account_key: CAROL_KEY }
  expect((await post(forged)).code).toBe('signature_invalid')
  const changed: Partial<CredentialRequest>[] = [
    { secret_hash: '11'.repeat(32) },
    { passphrase_digest: '11'.repeat(32) },
    { salt: '11'.repeat(16) },
    { credential_id: '11'.repeat(16) },
    { version: 3 },
    { kind: 'read' },
    { expiry_s: 9 },
    { account_key: encodeBase58(publicKeyOf(accountSeed('operator'))) },
    { signature: '11'.repeat(64) },
  ]
  for (const change of changed) expect((await post({ ...fields, ...change })).code).toBe('signature_invalid')
  expect(await changes()).toEqual(['admission', 'credential'])
})

test('bodies of the trader are void once replaced, for another venue, and under another account', async () => {
  expect((await post(given)).code).toBe('credential_version')
  const elsewhere = testCredential('carol', new Uint8Array(32), { version: 9 }).request
  expect((await post(elsewhere)).code).toBe('signature_invalid')
  const same_id = testCredential('operator', venueId(), {
    version: 9,
    credential_id: given.credential_id,
  }).request
  expect((await post(same_id)).code).toBe('credential_taken')
  // A token of the operator's account does not authorize commands of the trader's, even with bodies that the trader signed.
  const fresh = testCredential('carol', venueId(), { version: 5 }).request
  const foreign = await refusalOf(site.venue.setCredential('operator', fresh))
  expect(foreign.code).toBe('account_unknown')
})

test('a revocation carries nothing that could log in, and only the account key makes one', async () => {
  const revoking = { credential_id: given.credential_id, version: 99 }
  const forged = { ...revokeCredential(SITE_OPERATOR_SEED, venueId(), revoking), account_key: CAROL_KEY }
  expect((await post(forged)).code).toBe('signature_invalid')
  const { account_key: _, signature: __, ...terms } = given
  const laden = signCredential(accountSeed('carol'), venueId(), { ...terms, kind: 'revoke', version: 99 })
  expect(await post(laden)).toMatchObject({ code: 'field_invalid', facts: { field: 'kind' } })
})

test('a token of the operator’s own account reads and moves nothing of the trader', async () => {
  const { venue } = site
  const session = venue.authenticate(
    (await venue.login(testCredential('operator', venueId()).login)).access_token,
  )
  expect(session.account_id).toBe(accountId('operator'))
  expect((await refusalOf(venue.order('operator', order_id))).code).toBe('not_owner')
  for (const items of [
    (await venue.orders('operator', { after: 0, limit: 10 })).items,
    (await venue.fills('operator', { after: 0, limit: 10 })).items,
  ])
    expect(items).toEqual([])
  expect(JSON.stringify(await venue.events('operator', { after: 0, limit: 100 }))).not.toContain(order_id)
  const hers = venue.authenticate((await venue.login(carols)).access_token)
  const own = (await venue.login(testCredential('operator', venueId()).login)).access_token
  expect(() => venue.refresh(hers, own)).toThrow()
  expect((await refusalOf(venue.cancel('operator', order_id, carol.cancel(order_id)))).code).toBe('key_bound')
})

test('her trading key moves with her signature alone', async () => {
  const body = REBIND_BODY.encode({
    venue: venueId(),
    trading_key: carol.key,
    account_id: fromHex(accountId('operator'), 32)!,
    cancel_nonce: 50n,
  })
  const request = {
    trading_key: carol.trading_key,
    cancel_nonce: '50',
    signature: toHex(sign(SITE_OPERATOR_SEED, body)),
  }
  expect((await refusalOf(site.venue.rebind('operator', request))).code).toBe('signature_invalid')
})

test('its list, its metrics and the errors it gets show no credential, key or order of hers', async () => {
  const seen = JSON.stringify([await site.venue.listAccounts(), site.venue.metrics()])
  for (const hidden of [
    given.credential_id,
    given.secret_hash,
    given.passphrase_digest,
    order_id,
    carol.trading_key,
  ])
    expect(seen).not.toContain(hidden)
})

test('suspension and limits of nothing are events, and she still logs in, reads, cancels and withdraws', async () => {
  const { venue } = site
  const before = await changes()
  const none = { orders_live_max: 0, keys_max: 0, rate_capacity: 50, rate_refill_per_s: 50 }
  await venue.provision({ account_id: 'carol', version: 2, state: 'suspended', ...none })
  await venue.provision({ account_id: 'carol', version: 3, state: 'closed', ...none })
  expect(await changes()).toEqual([...before, 'admission', 'admission'])
  const { items } = await venue.events('carol', { after: 0, limit: 100 })
  expect(items.filter(({ kind }) => kind === 'account.changed').slice(-1)[0]!.data).toMatchObject({
    change: 'admission',
    state: 'closed',
    version: 3,
  })
  const { account_id } = venue.authenticate((await venue.login(carols)).access_token)
  expect((await venue.order(account_id, order_id)).status).toBe('accepted')
  expect((await venue.cancel('carol', order_id, carol.cancel(order_id))).status).toMatch(/^cancel/)
})

test('a rotation that the operator refuses to post is hers to make, and the body it withheld is void', async () => {
  const { venue } = site
  const withheld = testCredential('carol', venueId(), { version: 7 }).request
  const rotated = testCredential('carol', venueId(), { version: 8 })
  await venue.setCredential('carol', rotated.request)
  expect((await post(withheld)).code).toBe('credential_version')
  expect((await refusalOf(venue.login(carols))).code).toBe('credentials_invalid')
  expect((await venue.login(rotated.login)).account_id).toBe(accountId('carol'))
  expect((await changes()).slice(-2)).toEqual(['credential', 'login'])
})

test('a lost passphrase is a new credential by the account key; a lost account key, another account and a rebind', async () => {
  const { venue } = site
  const fresh = testCredential('carol', venueId(), { version: 20, credential_id: '77'.repeat(16) })
  await venue.setCredential(undefined, fresh.request)
  expect((await venue.login(fresh.login)).account_id).toBe(accountId('carol'))

  const second = await site.issue('carols second')
  expect((await venue.login(second)).account_id).toBe(accountId('carols second'))
  const body = REBIND_BODY.encode({
    venue: venueId(),
    trading_key: carol.key,
    account_id: fromHex(accountId('carols second'), 32)!,
    cancel_nonce: 60n,
  })
  const signature = toHex(sign(carol.seed, body))
  const request = { trading_key: carol.trading_key, cancel_nonce: '60', signature }
  expect(await venue.rebind('carols second', request)).toMatchObject({ trading_key: carol.trading_key })
  expect((await venue.account('carols second')).keys).toEqual([carol.trading_key])
  expect(await venue.account('carol')).toMatchObject({ keys: [], state: 'closed' })
  expect((await changes()).at(-1)).toBe('key_left')
  // Her signature for one account moves the key to no other.
  const again = { ...request, cancel_nonce: '61' }
  expect((await refusalOf(venue.rebind('operator', again))).code).toBe('signature_invalid')
})

test('a login under way while its credential is revoked gets no token that lives on, whenever the revocation comes', async () => {
  const { venue } = site
  const tokens: string[] = []
  const codes: string[] = []
  let version = 100
  const revoked = await site.issue('racer')
  for (let round = 0; round < 12; round++) {
    const fresh = testCredential('racer', venueId(), { version: version++ })
    await venue.setCredential(undefined, fresh.request)
    const login = venue.login(fresh.login).then(
      ({ access_token }) => void tokens.push(access_token),
      (error: { code: string }) => void codes.push(error.code),
    )
    // Before the passphrase is checked, while it is, between its check and the journal, and behind the answer.
    await (round < 10 ? Bun.sleep(round * 25) : login)
    const revoking = { credential_id: revoked.api_key, version: version++ }
    await venue.setCredential(undefined, revokeCredential(accountSeed('racer'), venueId(), revoking))
    for (const token of tokens) expect(await codeOf(() => venue.authenticate(token))).toBe('token_revoked')
    await login
    for (const token of tokens) expect(await codeOf(() => venue.authenticate(token))).toBe('token_revoked')
  }
  expect(tokens.length).toBeGreaterThan(0)
  expect(new Set(codes)).toEqual(new Set(['credentials_invalid']))
}, 180_000)

test('a flood of its records makes a login leave the list, and stays in its place; the event stays where it is', async () => {
  const { venue } = site
  const stolen = await site.issue('flooded')
  await venue.login(stolen)
  for (let version = 2; version <= LIMITS.account_changes_max + 2; version++)
    await venue.provision({ account_id: 'flooded', version })
  const listed = (await venue.account('flooded')).changes.map((one) => one.change)
  expect(listed).toEqual(Array(LIMITS.account_changes_max).fill('admission'))
  const { items } = await venue.events('flooded', { after: 0, limit: 500 })
  expect(items.map(({ data }) => (data as { change: string }).change)).toContain('login')
})

test('a restart keeps every revocation, and the tokens that have not ended; without its read models the list of changes is the same', async () => {
  const gone = await site.issue('revoker')
  const kept = testCredential('revoker', venueId(), { version: 2, credential_id: '55'.repeat(16) })
  await site.venue.setCredential(undefined, kept.request)
  const { access_token } = await site.venue.login(kept.login)
  const { access_token: ended } = await site.venue.login(gone)
  const revoking = { credential_id: gone.api_key, version: 3 }
  await site.venue.setCredential(undefined, revokeCredential(accountSeed('revoker'), venueId(), revoking))
  const before = await site.venue.account('revoker')
  await site.venue.close()
  rmSync(join(site.dir, 'history'), { recursive: true })
  await site.openVenue()
  expect(await site.venue.account('revoker')).toEqual(before)
  expect(site.venue.authenticate(access_token).account_id).toBe(accountId('revoker'))
  expect(await codeOf(() => site.venue.authenticate(ended))).toBe('token_invalid')
  expect((await refusalOf(site.venue.login(gone))).code).toBe('credentials_invalid')
  const first = testCredential('revoker', venueId()).request
  expect((await post(first)).code).toBe('credential_version')
  expect((await site.venue.login(kept.login)).account_id).toBe(accountId('revoker'))
}, 180_000)
