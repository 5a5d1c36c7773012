/** `bun run account` and `tacit account` as operator and trader use them: from a seed to a login, and everything after. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Login, VenueClient, VenueProblem } from '../../../client/api/venue_client'
import { Wallet } from '../../../client/wallet/wallet'
import { loadWallet, saveWallet } from '../../../client/wallet/wallet_file'
import { openOperatorCheck } from '../../../engine/accounts/verify_operator'
import { encodeBase58 } from '../../../protocol/base58'
import { fromHex, toHex } from '../../../protocol/bytes'
import { publicKeyOf } from '../../../protocol/sign'
import type { AccountView, CredentialRequest } from '../../../protocol/wire/trading'
import { openLog } from '../../../server/edge/log'
import { openMeters } from '../../../server/edge/meters'
import { operatorApp } from '../../../server/operator/operator'
import { DEFAULT_LIMITS } from '../../../tools/account/call_operator'
import { VenueProcess, venueTransport } from '../../faults/kit/venue_process'
import { run } from '../../kit/said'
import { TestSite, type TestVenue } from '../../kit/venue/open_test_venue'
import { refusalOf } from '../../kit/venue/refusal_of'
import { accountId, OPERATOR_SEED, testCredential } from '../../kit/venue/test_login'
import { Trader } from '../../kit/venue/trader'
import { CANCEL, KEY, ORDER_ID, PLACE, WITHDRAWAL } from '../../routes/bodies'

const MAIN = join(import.meta.dir, '../../../tools/account/main.ts')
const site = new TestSite()
let folder: string
let open: TestVenue
let server: ReturnType<typeof Bun.serve>
let drained = 0
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'account-'))
  // Commands are processes, which may take longer than the chain's stall limit.
  const standing_ms = site.monotonicMs()
  site.monotonicMs = () => standing_ms
  open = await site.open()
  writeFileSync(join(folder, 'operator.key'), toHex(OPERATOR_SEED))
  const { operator_key } = open.config
  const clock = { unixMs: () => Date.now() - 1_000, monotonicMs: () => performance.now() }
  const venue = fromHex(open.venue.identity().venue, 32)!
  const { fetch } = operatorApp({
    venue: open.venue.parsed,
    log: openLog(() => undefined, clock.unixMs),
    clock,
    documents: { json: '', html: '', css: '', streams: '', index: '', files: new Map() },
    check: openOperatorCheck({ operator_key, venue, clock }),
    app: { meters: openMeters() },
    ends: () => ({ certificate_ms: 0, collateral_ms: 0 }),
    drain: () => void drained++,
  })
  server = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: (request) => fetch(request) })
})
afterAll(async () => {
  await server.stop(true)
  await site.remove()
  rmSync(folder, { recursive: true })
})

const account = (...args: string[]) => run([process.execPath, MAIN, ...args], { cwd: folder })
const at = (venue = open.venue.identity().venue, key = 'operator.key') =>
  ['--operator-key', key, '--url', server.url.href, '--venue', venue] as const
function asked(name: string, version: number): string {
  const { request } = testCredential(name, fromHex(open.venue.identity().venue, 32)!, { version })
  writeFileSync(join(folder, `${name}.json`), JSON.stringify(request))
  return `${name}.json`
}
const changes = ({ changes }: AccountView) => changes.map((one) => [one.change, one.state, one.version])

describe('the account command', () => {
  test('has the default limits that its usage and the design state', () => {
    const orders_and_keys = { orders_live_max: 10_000, keys_max: 10_000 }
    expect(DEFAULT_LIMITS).toEqual({ rate_capacity: 100, rate_refill_per_s: 50, ...orders_and_keys })
  })

  test('admits a trader’s request, then changes limits and state; the account sees each act', async () => {
    const request = asked('desk', 3)
    const admitted = await account('admit', ...at(), '--request', request, '--orders', '7')
    expect(admitted).toMatchObject({ code: 0, error: '' })
    const id = accountId('desk')
    expect(admitted.out).toContain(`"account_id":"${id}","version":1`)
    const { out } = await account('list', ...at())
    expect(JSON.parse(out).items).toMatchObject([
      { account_id: id, state: 'active', limits: { ...DEFAULT_LIMITS, orders_live_max: 7 } },
    ])
    for (const text of [out, admitted.out, readFileSync(join(folder, request), 'utf8')])
      expect(text).not.toContain(testCredential('desk', new Uint8Array(32)).login.api_secret)

    // A second request of a known account changes its credentials alone.
    expect((await account('admit', ...at(), '--request', asked('desk', 4))).code).toBe(0)
    for (const act of [['limit', '--keys', '9'], ['suspend'], ['resume'], ['close']])
      expect(await account(...act, ...at(), '--account', id)).toMatchObject({ code: 0, error: '' })
    const view = await open.venue.account('desk')
    expect(view).toMatchObject({ state: 'closed', limits: { orders_live_max: 7, keys_max: 9 } })
    expect(changes(view)).toEqual([
      ['admission', 'active', 1],
      ['credential', undefined, 3],
      ['credential', undefined, 4],
      ['admission', 'active', 2],
      ['admission', 'suspended', 3],
      ['admission', 'active', 4],
      ['admission', 'closed', 5],
    ])
    const reopened = await account('resume', ...at(), '--account', id)
    expect([reopened.code, reopened.error]).toEqual([1, expect.stringContaining('record_invalid')])
  }, 120_000)

  test('is refused for another venue, with another key, and for an account that is not there', async () => {
    const wrong = await account('drain', ...at('00'.repeat(32)))
    expect([wrong.code, wrong.error]).toEqual([1, expect.stringContaining('operator_signature_invalid')])
    await account('operator-keygen', '--out', 'other.key')
    const foreign = await account('list', ...at(undefined, 'other.key'))
    expect([foreign.code, foreign.error]).toEqual([1, expect.stringContaining('operator_signature_invalid')])
    const missing = await account('suspend', ...at(), '--account', '00'.repeat(32))
    expect([missing.code, missing.error]).toEqual([1, expect.stringContaining('lists no account')])
    expect(drained).toBe(0)
    expect((await account('drain', ...at())).out).toContain('draining')
    expect(drained).toBe(1)
    expect((await account('metrics', ...at())).out).toContain('tacit_journal_seq')
  }, 120_000)

  test('writes a scrape token for its owner alone, which reads metrics and nothing else', async () => {
    const make = (...args: string[]) =>
      account('scrape-token', '--operator-key', 'operator.key', '--venue', at()[5], ...args)
    expect((await make('--out', 'scrape.token')).code).toBe(0)
    expect(statSync(join(folder, 'scrape.token')).mode & 0o777).toBe(0o600)
    const authorization = `Bearer ${readFileSync(join(folder, 'scrape.token'), 'utf8')}`
    const scrape = (path: string) => fetch(new URL(path, server.url), { headers: { authorization } })
    const answer = await scrape('/metrics')
    expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining('tacit_ready 1')])
    expect((await scrape('/accounts')).status).toBe(401)
    for (const days of ['0', '401'])
      expect((await make('--out', 'other.token', '--days', days)).code).toBe(64)
    expect((await make('--out', 'scrape.token')).code).toBe(74)
  }, 120_000)

  test('pauses, opens and retires an instrument, which cancels its orders and stays readable after a restart', async () => {
    const trader = await Trader.provisioned(open, 'maker')
    const resting = trader.place(trader.deposit('quote', 200_000_000n), { symbol: 'ALT-USDC' })
    const late = trader.place(trader.deposit('quote', 200_000_000n), { symbol: 'ALT-USDC' })
    await open.chain.finalizeLeaves()
    const change = (status: string, symbol = 'ALT-USDC') =>
      account('instrument', ...at(), '--symbol', symbol, '--status', status)
    const shown = () => open.venue.instruments().find(({ symbol }) => symbol === 'ALT-USDC')?.status
    await open.venue.place('maker', resting)
    expect(JSON.parse((await change('paused')).out)).toMatchObject({
      symbol: 'ALT-USDC',
      status: 'paused',
    })
    expect(shown()).toBe('paused')
    expect((await refusalOf(open.venue.place('maker', late))).code).toBe('instrument_paused')
    expect((await change('active')).code).toBe(0)
    expect(shown()).toBe('active')
    expect((await change('closed')).code).toBe(0)
    expect(await open.venue.order('maker', resting.order_id)).toMatchObject({
      status: 'cancelled',
      reason: 'instrument_closed',
    })
    for (const [refused, error] of [
      [await change('active'), 'field_invalid'],
      [await change('paused'), 'field_invalid'],
      [await change('open'), 'field_invalid'],
      [await change('paused', 'NONE'), 'instrument_unknown'],
    ] as const)
      expect([refused.code, refused.error]).toEqual([1, expect.stringContaining(error)])
    expect(shown()).toBe('closed')
    await open.close()
    open = await site.open()
    expect(shown()).toBe('closed')
    expect(await open.venue.order('maker', resting.order_id)).toMatchObject({ reason: 'instrument_closed' })
  }, 120_000)

  test('does not open an instrument that the settings no longer name', async () => {
    const [symbol, change] = ['SOL-USDC', (status: string) => open.venue.changeInstrument({ symbol, status })]
    const instruments = open.config.instruments.filter((one) => one.symbol !== symbol)
    await open.close()
    open = await site.open({ instruments })
    const refusal = await refusalOf(change('active'))
    expect([refusal.code, refusal.facts]).toEqual(['field_invalid', { field: 'status' }])
    expect(await change('paused')).toMatchObject({ symbol, status: 'paused' })
    await open.close()
    open = await site.open()
    expect(await change('active')).toMatchObject({ symbol, status: 'active' })
  })

  test('activates no version that the build lacks, and writes no record for the one in force', async () => {
    const { version } = open.engine.state
    const before = open.engine.sequencer.seq_executed
    expect(await open.venue.parsed.activate({ version })).toEqual({ version })
    for (const other of [version - 1, version + 1])
      expect((await refusalOf(open.venue.parsed.activate({ version: other }))).code).toBe(
        'version_unsupported',
      )
    expect(open.engine.sequencer.seq_executed).toBe(before)
  })

  test('makes a key for its owner alone, never overwrites a file and names a missing option', async () => {
    const { out } = await account('operator-keygen', '--out', 'twice.key')
    const seed = fromHex(readFileSync(join(folder, 'twice.key'), 'utf8').trim(), 32)!
    expect(JSON.parse(out)).toEqual({ operator_key: encodeBase58(publicKeyOf(seed)) })
    expect(statSync(join(folder, 'twice.key')).mode & 0o777).toBe(0o600)
    const before = readFileSync(join(folder, 'twice.key'), 'utf8')
    expect((await account('operator-keygen', '--out', 'twice.key')).code).toBe(74)
    expect(readFileSync(join(folder, 'twice.key'), 'utf8')).toBe(before)
    expect((await account('suspend', ...at())).error).toContain('--account is missing')
    expect((await account('nonsense')).error).toContain('usage: bun run account')
    expect((await account()).code).toBe(64)
  }, 120_000)
})

const TACIT = join(import.meta.dir, '../../../client/cli/tacit.ts')
const OPERATOR = join(import.meta.dir, '../../../tools/account/main.ts')
const venue = new VenueProcess()
const accountFolder = mkdtempSync(join(tmpdir(), 'tacit-account-'))
const accountAt = (name: string) => join(accountFolder, name)
const loginOf = (name: string) => JSON.parse(readFileSync(accountAt(name), 'utf8')) as Login
const clientOf = (login: Login) => new VenueClient(venueTransport(venue), login)
let venue_id: string

beforeAll(async () => {
  await venue.start()
  writeFileSync(accountAt('seed'), toHex(crypto.getRandomValues(new Uint8Array(32))), { mode: 0o600 })
  venue_id = (await clientOf({ api_key: '', api_secret: '', passphrase: '', account_id: '' }).info()).venue
}, 180_000)
afterAll(async () => {
  await venue.remove()
  rmSync(accountFolder, { recursive: true, force: true })
})

const tacit = (verb: string, ...args: string[]) => {
  const { collateral, policy, url } = venue.facts
  return run([
    process.execPath,
    TACIT,
    'account',
    verb,
    url,
    '--policy',
    policy,
    '--collateral',
    collateral,
    ...args,
  ])
}
async function must<T>(verb: string, ...args: string[]): Promise<T> {
  const { code, error, out } = await tacit(verb, ...args)
  expect([code, error]).toEqual([0, ''])
  return JSON.parse(out) as T
}
async function admit(request: CredentialRequest): Promise<void> {
  writeFileSync(accountAt('request.json'), JSON.stringify(request))
  const { certificate, operator_key, operator_url } = venue.facts
  const target = [
    '--operator-key',
    operator_key,
    '--url',
    operator_url,
    '--venue',
    venue_id,
    '--ca',
    certificate,
  ]
  const { code, error } = await run([
    process.execPath,
    OPERATOR,
    'admit',
    '--request',
    accountAt('request.json'),
    ...target,
  ])
  expect([code, error]).toEqual([0, ''])
}
const codeOf = async (call: Promise<unknown>) =>
  call.then(
    () => 'not refused',
    (error) => (error instanceof VenueProblem ? error.code : String(error)),
  )

test('a trader’s request is admitted, and its login trades; nothing secret left the trader’s files', async () => {
  const request = await must<CredentialRequest>(
    'request',
    '--seed-file',
    accountAt('seed'),
    '--out',
    accountAt('first.json'),
  )
  expect(statSync(accountAt('first.json')).mode & 0o777).toBe(0o600)
  expect(await codeOf(clientOf(loginOf('first.json')).login())).toBe('credentials_invalid')
  await admit(request)
  const login = loginOf('first.json')
  for (const secret of [login.api_secret, login.passphrase])
    expect(JSON.stringify(request)).not.toContain(secret)
  const view = await must<AccountView>('show', '--login', accountAt('first.json'))
  expect(view).toMatchObject({ account_key: request.account_key, state: 'active', keys: [] })
  expect(view.changes.map((one) => one.change)).toEqual(['admission', 'credential', 'login'])
  const { account_id, ...unnamed } = login
  expect(account_id).toBe(view.account_id)
  writeFileSync(accountAt('unnamed.json'), JSON.stringify(unnamed), { mode: 0o600 })
  const blind = await tacit('show', '--login', accountAt('unnamed.json'))
  expect([blind.code, blind.error]).toEqual([64, expect.stringContaining('does not name its account')])
  const foreign = { ...login, account_id: '00'.repeat(32) }
  writeFileSync(accountAt('foreign.json'), JSON.stringify(foreign), { mode: 0o600 })
  const other = await tacit('show', '--login', accountAt('foreign.json'))
  expect([other.code, other.error]).toEqual([64, expect.stringContaining('another account')])
  const again = await tacit('request', '--seed-file', accountAt('seed'), '--out', accountAt('first.json'))
  expect([again.code, again.error]).toEqual([64, expect.stringContaining('never overwritten')])
}, 180_000)

test('statistics are verified, kept, and refused once a row seen before is gone', async () => {
  const { collateral, policy, url } = venue.facts
  const statistics = (...args: string[]) => {
    const place = ['--policy', policy, '--collateral', collateral, '--login', accountAt('first.json')]
    return run([process.execPath, TACIT, 'statistics', url, ...args, ...place])
  }
  const HEADER = 'start,open,high,low,close,volume,auctions\n'
  const history = ['--history', accountAt('hours.json')]
  expect(await statistics('SOL-USDC', ...history)).toEqual({ code: 0, out: HEADER, error: '' })
  expect(await statistics('SOL-USDC', ...history)).toEqual({ code: 0, out: HEADER, error: '' })
  const row = { start_unix_s: 3_600, hash: 'ab'.repeat(32) }
  writeFileSync(accountAt('hours.json'), JSON.stringify({ symbol: 'SOL-USDC', period: 'hour', rows: [row] }))
  const rewritten = await statistics('SOL-USDC', ...history)
  expect([rewritten.code, rewritten.error]).toEqual([1, expect.stringContaining('rewrote its history')])
  const other = await statistics('SOL-USDC', '--period', 'day', ...history)
  expect([other.code, other.error]).toEqual([64, expect.stringContaining('holds no rows of SOL-USDC by day')])
  const unknown = await statistics('NO-SUCH')
  expect([unknown.code, unknown.out]).toEqual([1, ''])
  const wrong = await statistics('SOL-USDC', '--period', 'week')
  expect([wrong.code, wrong.error]).toEqual([64, expect.stringContaining('--period is hour or day')])
  const token = await clientOf(loginOf('first.json')).token()
  const headers = { authorization: `Bearer ${token}`, accept: 'text/csv' }
  const csv = await venueTransport(venue).fetch('/instruments/SOL-USDC/statistics', { headers })
  expect([csv.status, csv.headers.get('content-type')]).toEqual([200, 'text/csv'])
  expect(await csv.text()).toBe('start_unix_s,open,high,low,close,volume,auctions,previous,hash\r\n')
}, 180_000)

test('a verb that is none, and a venue without TLS, are usage errors', async () => {
  for (const [words, message] of [
    [['frob', venue.facts.url], 'tacit account request'],
    [['show', venue.facts.url.replace('https', 'http')], '--url is an https address'],
    [['show'], '--url is needed'],
  ] as const) {
    const { code, error } = await run([process.execPath, TACIT, 'account', ...words])
    expect([code, error]).toEqual([64, expect.stringContaining(message)])
  }
}, 180_000)

test('a credential that reads gets orders, fills and events, and 403 read_only for all else', async () => {
  const login = ['--login', accountAt('first.json'), '--seed-file', accountAt('seed')]
  await must('credential', ...login, '--out', accountAt('reader.json'), '--kind', 'read')
  const reader = clientOf(loginOf('reader.json'))
  expect((await reader.orders()).items).toEqual([])
  expect((await reader.fills()).items).toEqual([])
  expect((await reader.events()).items.length).toBeGreaterThan(2)
  const refused = [
    reader.place(PLACE),
    reader.cancel(ORDER_ID, CANCEL),
    reader.withdraw(WITHDRAWAL),
    reader.account(),
    reader.nonces(KEY),
    reader.settlement(),
    reader.leaves(0, 1),
  ]
  expect(new Set(await Promise.all(refused.map(codeOf)))).toEqual(new Set(['read_only']))
  const token = await reader.token()
  const upgrade = {
    headers: { upgrade: 'websocket', connection: 'upgrade', authorization: `Bearer ${token}` },
  }
  const socket = await venueTransport(venue).fetch('/ws/trading', upgrade)
  expect([socket.status, (await socket.json()).code]).toEqual([403, 'read_only'])
  const { code, error } = await tacit(
    'revoke',
    '--login',
    accountAt('reader.json'),
    '--seed-file',
    accountAt('seed'),
    '--credential',
    '00'.repeat(16),
  )
  expect([code, error]).toEqual([1, expect.stringContaining('read_only')])
}, 180_000)

test('revoking a credential closes its sockets with 4401 and ends its tokens; the others live on', async () => {
  const [reader, trader] = [clientOf(loginOf('reader.json')), clientOf(loginOf('first.json'))]
  const open = async (path: string, client: VenueClient) => {
    const socket = venueTransport(venue).webSocket(`${path}?token=${await client.token()}`)
    const closed = new Promise<number>((resolve) =>
      socket.addEventListener('close', ({ code }) => resolve(code)),
    )
    await new Promise((resolve) => socket.addEventListener('message', resolve, { once: true }))
    return { closed, socket }
  }
  const [orders, fills, trading] = await Promise.all([
    open('/ws/orders', reader),
    open('/ws/fills', reader),
    open('/ws/trading', trader),
  ])
  const seen: unknown[] = []
  trading.socket.addEventListener('message', ({ data }) => seen.push(JSON.parse(String(data))))
  const { api_key } = loginOf('reader.json')
  const named = [
    '--seed-file',
    accountAt('seed'),
    '--login',
    accountAt('first.json'),
    '--credential',
    api_key,
  ]
  expect(await must<{ credential_id: string }>('revoke', ...named)).toMatchObject({ credential_id: api_key })
  expect(await Promise.all([orders.closed, fills.closed])).toEqual([4401, 4401])
  expect(await codeOf(reader.login())).toBe('credentials_invalid')
  expect((await trader.account()).credentials.map((one) => one.credential_id)).toEqual([
    loginOf('first.json').api_key,
  ])
  const changed = { type: 'event', kind: 'account.changed', data: { change: 'credential', kind: 'revoke' } }
  expect(seen).toContainEqual(
    expect.objectContaining({ ...changed, data: expect.objectContaining(changed.data) }),
  )
  expect(trading.socket.readyState).toBe(WebSocket.OPEN)
  trading.socket.close()
}, 180_000)

test('a lost login is replaced by a new request of the same seed; a lost seed by another account and a rebind', async () => {
  await admit(await must('request', '--seed-file', accountAt('seed'), '--out', accountAt('second.json')))
  const first = await clientOf(loginOf('first.json')).login()
  expect(await clientOf(loginOf('second.json')).login()).toBe(first)

  const wallet = new Wallet(crypto.getRandomValues(new Uint8Array(32)))
  saveWallet(accountAt('wallet.json'), wallet)
  writeFileSync(accountAt('other'), toHex(crypto.getRandomValues(new Uint8Array(32))), { mode: 0o600 })
  await admit(await must('request', '--seed-file', accountAt('other'), '--out', accountAt('other.json')))
  const taken = await must('rebind', '--wallet', accountAt('wallet.json'), '--login', accountAt('other.json'))
  expect(taken).toMatchObject({ trading_key: wallet.tradingKeyText(0), cancelled: [] })
  expect(loadWallet(accountAt('wallet.json'))!.counters(0).cancels).toBe(1)
  const view = await must<AccountView>('show', '--login', accountAt('other.json'))
  expect([view.account_id === first, view.keys]).toEqual([false, [wallet.tradingKeyText(0)]])
}, 180_000)

test('the venue’s own demo account logs in, and is the same after a restart', async () => {
  const path = join(venue.data_dir, 'demo-login.json')
  const demo = readFileSync(path, 'utf8')
  const account_id = await clientOf(JSON.parse(demo).login).login()
  expect(statSync(path).mode & 0o777).toBe(0o600)
  await venue.stop()
  await venue.start()
  expect(readFileSync(path, 'utf8')).toBe(demo)
  expect(await clientOf(JSON.parse(demo).login).login()).toBe(account_id)
  expect((await clientOf(loginOf('second.json')).account()).changes.length).toBeGreaterThan(3)
}, 180_000)
