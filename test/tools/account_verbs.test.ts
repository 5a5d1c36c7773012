/** `tacit account` and `bun run account` together, on a real venue process: from a seed to a login, and everything after. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Login, VenueClient, VenueProblem } from '../../client/api/venue_client'
import { Wallet } from '../../client/wallet/wallet'
import { loadWallet, saveWallet } from '../../client/wallet/wallet_file'
import { toHex } from '../../protocol/bytes'
import type { AccountView, CredentialRequest } from '../../protocol/wire/trading'
import { VenueProcess, venueTransport } from '../faults/kit/venue_process'
import { CANCEL, KEY, ORDER_ID, PLACE, WITHDRAWAL } from '../routes/bodies'

const TACIT = join(import.meta.dir, '../../client/cli/tacit.ts')
const OPERATOR = join(import.meta.dir, '../../tools/account/main.ts')
const venue = new VenueProcess()
const folder = mkdtempSync(join(tmpdir(), 'tacit-account-'))
const at = (name: string) => join(folder, name)
const loginOf = (name: string) => JSON.parse(readFileSync(at(name), 'utf8')) as Login
const clientOf = (login: Login) => new VenueClient(venueTransport(venue), login)
let venue_id: string

beforeAll(async () => {
  await venue.start()
  writeFileSync(at('seed'), toHex(crypto.getRandomValues(new Uint8Array(32))), { mode: 0o600 })
  venue_id = (await clientOf({ api_key: '', api_secret: '', passphrase: '', account_id: '' }).info()).venue
}, 180_000)
afterAll(async () => {
  await venue.remove()
  rmSync(folder, { recursive: true, force: true })
})

async function run(main: string, args: string[]) {
  const child = Bun.spawn([process.execPath, main, ...args], { stdout: 'pipe', stderr: 'pipe' })
  const [printed, error] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ])
  return { code: await child.exited, printed, error }
}
const tacit = (verb: string, ...args: string[]) => {
  const { collateral, policy, url } = venue.facts
  return run(TACIT, ['account', verb, url, '--policy', policy, '--collateral', collateral, ...args])
}
async function must<T>(verb: string, ...args: string[]): Promise<T> {
  const { code, error, printed } = await tacit(verb, ...args)
  expect([code, error]).toEqual([0, ''])
  return JSON.parse(printed) as T
}
async function admit(request: CredentialRequest): Promise<void> {
  writeFileSync(at('request.json'), JSON.stringify(request))
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
  const { code, error } = await run(OPERATOR, ['admit', '--request', at('request.json'), ...target])
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
    at('seed'),
    '--out',
    at('first.json'),
  )
  expect(statSync(at('first.json')).mode & 0o777).toBe(0o600)
  expect(await codeOf(clientOf(loginOf('first.json')).login())).toBe('credentials_invalid')
  await admit(request)
  const login = loginOf('first.json')
  for (const secret of [login.api_secret, login.passphrase])
    expect(JSON.stringify(request)).not.toContain(secret)
  const view = await must<AccountView>('show', '--login', at('first.json'))
  expect(view).toMatchObject({ account_key: request.account_key, state: 'active', keys: [] })
  expect(view.changes.map((one) => one.change)).toEqual(['admission', 'credential', 'login'])
  const { account_id, ...unnamed } = login
  expect(account_id).toBe(view.account_id)
  writeFileSync(at('unnamed.json'), JSON.stringify(unnamed), { mode: 0o600 })
  const blind = await tacit('show', '--login', at('unnamed.json'))
  expect([blind.code, blind.error]).toEqual([64, expect.stringContaining('does not name its account')])
  const foreign = { ...login, account_id: '00'.repeat(32) }
  writeFileSync(at('foreign.json'), JSON.stringify(foreign), { mode: 0o600 })
  const other = await tacit('show', '--login', at('foreign.json'))
  expect([other.code, other.error]).toEqual([64, expect.stringContaining('another account')])
  const again = await tacit('request', '--seed-file', at('seed'), '--out', at('first.json'))
  expect([again.code, again.error]).toEqual([64, expect.stringContaining('never overwritten')])
}, 180_000)

test('statistics are verified, kept, and refused once a row seen before is gone', async () => {
  const { collateral, policy, url } = venue.facts
  const statistics = (...args: string[]) => {
    const place = ['--policy', policy, '--collateral', collateral, '--login', at('first.json')]
    return run(TACIT, ['statistics', url, ...args, ...place])
  }
  const HEADER = 'start,open,high,low,close,volume,auctions\n'
  const history = ['--history', at('hours.json')]
  expect(await statistics('SOL-USDC', ...history)).toEqual({ code: 0, printed: HEADER, error: '' })
  expect(await statistics('SOL-USDC', ...history)).toEqual({ code: 0, printed: HEADER, error: '' })
  const row = { start_unix_s: 3_600, hash: 'ab'.repeat(32) }
  writeFileSync(at('hours.json'), JSON.stringify({ symbol: 'SOL-USDC', period: 'hour', rows: [row] }))
  const rewritten = await statistics('SOL-USDC', ...history)
  expect([rewritten.code, rewritten.error]).toEqual([1, expect.stringContaining('rewrote its history')])
  const other = await statistics('SOL-USDC', '--period', 'day', ...history)
  expect([other.code, other.error]).toEqual([64, expect.stringContaining('holds no rows of SOL-USDC by day')])
  const unknown = await statistics('NO-SUCH')
  expect([unknown.code, unknown.printed]).toEqual([1, ''])
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
    const { code, error } = await run(TACIT, ['account', ...words])
    expect([code, error]).toEqual([64, expect.stringContaining(message)])
  }
}, 180_000)

test('a credential that reads gets orders, fills and events, and 403 read_only for all else', async () => {
  const login = ['--login', at('first.json'), '--seed-file', at('seed')]
  await must('credential', ...login, '--out', at('reader.json'), '--kind', 'read')
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
    at('reader.json'),
    '--seed-file',
    at('seed'),
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
  const named = ['--seed-file', at('seed'), '--login', at('first.json'), '--credential', api_key]
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
  await admit(await must('request', '--seed-file', at('seed'), '--out', at('second.json')))
  const first = await clientOf(loginOf('first.json')).login()
  expect(await clientOf(loginOf('second.json')).login()).toBe(first)

  const wallet = new Wallet(crypto.getRandomValues(new Uint8Array(32)))
  saveWallet(at('wallet.json'), wallet)
  writeFileSync(at('other'), toHex(crypto.getRandomValues(new Uint8Array(32))), { mode: 0o600 })
  await admit(await must('request', '--seed-file', at('other'), '--out', at('other.json')))
  const taken = await must('rebind', '--wallet', at('wallet.json'), '--login', at('other.json'))
  expect(taken).toMatchObject({ trading_key: wallet.tradingKeyText(0), cancelled: [] })
  expect(loadWallet(at('wallet.json'))!.counters(0).cancels).toBe(1)
  const view = await must<AccountView>('show', '--login', at('other.json'))
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
