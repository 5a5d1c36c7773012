/** `bun run account` as an operator uses it, against the operator's listener of a venue. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openOperatorCheck } from '../../../engine/accounts/verify_operator'
import { encodeBase58 } from '../../../protocol/base58'
import { fromHex, toHex } from '../../../protocol/bytes'
import { publicKeyOf } from '../../../protocol/sign'
import type { AccountView } from '../../../protocol/wire/trading'
import { openLog } from '../../../server/edge/log'
import { openMeters } from '../../../server/edge/meters'
import { operatorApp } from '../../../server/operator/operator'
import { DEFAULT_LIMITS } from '../../../tools/account/call_operator'
import { TestSite, type TestVenue } from '../../kit/venue/open_test_venue'
import { refusalOf } from '../../kit/venue/refusal_of'
import { accountId, OPERATOR_SEED, testCredential } from '../../kit/venue/test_login'
import { Trader } from '../../kit/venue/trader'

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

async function account(...args: string[]) {
  const child = Bun.spawn([process.execPath, MAIN, ...args], { cwd: folder, stdout: 'pipe', stderr: 'pipe' })
  const [printed, error] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ])
  return { code: await child.exited, error, printed }
}
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
    expect(admitted.printed).toContain(`"account_id":"${id}","version":1`)
    const { printed } = await account('list', ...at())
    expect(JSON.parse(printed).items).toMatchObject([
      { account_id: id, state: 'active', limits: { ...DEFAULT_LIMITS, orders_live_max: 7 } },
    ])
    for (const text of [printed, admitted.printed, readFileSync(join(folder, request), 'utf8')])
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
    expect((await account('drain', ...at())).printed).toContain('draining')
    expect(drained).toBe(1)
    expect((await account('metrics', ...at())).printed).toContain('tacit_journal_seq')
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
    expect(JSON.parse((await change('paused')).printed)).toMatchObject({
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

  test('makes a key for its owner alone, never overwrites a file and says what is missing', async () => {
    const { printed } = await account('operator-keygen', '--out', 'twice.key')
    const seed = fromHex(readFileSync(join(folder, 'twice.key'), 'utf8').trim(), 32)!
    expect(JSON.parse(printed)).toEqual({ operator_key: encodeBase58(publicKeyOf(seed)) })
    expect(statSync(join(folder, 'twice.key')).mode & 0o777).toBe(0o600)
    const before = readFileSync(join(folder, 'twice.key'), 'utf8')
    expect((await account('operator-keygen', '--out', 'twice.key')).code).toBe(74)
    expect(readFileSync(join(folder, 'twice.key'), 'utf8')).toBe(before)
    expect((await account('suspend', ...at())).error).toContain('--account is missing')
    expect((await account('nonsense')).error).toContain('usage: bun run account')
    expect((await account()).code).toBe(64)
  }, 120_000)
})
