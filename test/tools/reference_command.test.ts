/** `bun run reference` as source and operator use it, against a venue's own operator listener. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openOperatorCheck } from '../../engine/accounts/verify_operator'
import { encodeBase58 } from '../../protocol/base58'
import { toHex } from '../../protocol/bytes'
import { publicKeyOf } from '../../protocol/sign'
import { openLog } from '../../server/edge/log'
import { openMeters } from '../../server/edge/meters'
import { operatorApp } from '../../server/operator/operator'
import { type Listener, listen } from '../../server/tls/listen'
import { bytes } from '../kit/venue/memory_chain'
import { ORACLE_SYMBOL, OracleSite, SOURCE } from '../kit/venue/oracle_site'

const MAIN = join(import.meta.dir, '../../tools/reference/main.ts')
const folder = mkdtempSync(join(tmpdir(), 'reference-'))
const site = new OracleSite()
const operator_seed = bytes(32)
const lines: string[] = []
let listener: Listener

beforeAll(async () => {
  site.unixMs = () => Date.now()
  const { venue } = await site.openOracle()
  const clock = { unixMs: () => Date.now() - 1_000, monotonicMs: () => performance.now() }
  const operator_key = encodeBase58(publicKeyOf(operator_seed))
  const app = operatorApp({
    venue: venue.parsed,
    log: openLog((line) => lines.push(line), clock.unixMs),
    clock,
    documents: { json: '{}', html: '', css: '', streams: '', index: '', files: new Map() },
    check: openOperatorCheck({ operator_key, venue: site.venue_id, clock }),
    app: { meters: openMeters() },
    ends: () => ({ certificate_ms: 0, collateral_ms: 0 }),
    drain: () => undefined,
  })
  listener = listen(app, { hostname: '127.0.0.1', port: 0 })
  writeFileSync(join(folder, 'source.key'), toHex(site.source_seed))
  writeFileSync(join(folder, 'operator.key'), toHex(operator_seed))
})
afterAll(async () => {
  await listener.stop(0)
  await site.remove()
  rmSync(folder, { recursive: true })
})

async function reference(args: string[], input = '') {
  const child = Bun.spawn([process.execPath, MAIN, ...args], {
    cwd: folder,
    stdin: new TextEncoder().encode(input),
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const texts = Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
  const [code, [out, error]] = await Promise.all([child.exited, texts])
  return { code, out, error }
}
const priced = (price: string) => {
  const what = ['--symbol', ORACLE_SYMBOL, '--source', SOURCE, '--price', price]
  return [...what, '--source-key', 'source.key', '--venue', toHex(site.venue_id)]
}
const operator = (key = 'operator.key') => ['--operator-key', key, '--url', listener.url]
const ticks = () => site.venue.engine.state.instruments.get(ORACLE_SYMBOL)!.reference_ticks

test('a source key is made once, for its owner alone', async () => {
  const made = await reference(['keygen', '--out', 'fresh.key'])
  expect(JSON.parse(made.out).key).toMatch(/^[1-9A-HJ-NP-Za-km-z]{32,44}$/)
  expect(statSync(join(folder, 'fresh.key')).mode & 0o777).toBe(0o600)
  expect((await reference(['keygen', '--out', 'fresh.key'])).code).toBe(74)
})

test('a price signed by the source and posted by the operator becomes the reference, once', async () => {
  const signed = await reference(['sign', ...priced('123450000')])
  expect(signed).toMatchObject({ code: 0, error: '' })
  const posting = ['post', '--record', '-', '--venue', toHex(site.venue_id), ...operator()]
  const posted = await reference(posting, signed.out)
  expect(posted).toMatchObject({ code: 0, error: '' })
  expect(JSON.parse(posted.out)).toMatchObject({ symbol: ORACLE_SYMBOL })
  expect(ticks()).toBe(12_345)
  const again = await reference(posting, signed.out)
  expect(again.code).toBe(1)
  expect(again.error).toContain('reference_stale')
  expect(lines.join()).not.toContain('12345')
})

test('signing and posting are one step where one machine holds both keys', async () => {
  expect(await reference(['post', ...priced('124000000'), ...operator()])).toMatchObject({
    code: 0,
    error: '',
  })
  expect(ticks()).toBe(12_400)
})

test('a price is not taken without the operator, nor from another source key', async () => {
  const foreign = await reference(['post', ...priced('125000000'), ...operator('fresh.key')])
  expect(foreign.error).toContain('operator_signature_invalid')
  const forged = priced('125000000').map((word) => (word === 'source.key' ? 'fresh.key' : word))
  expect((await reference(['post', ...forged, ...operator()])).error).toContain('reference_source_invalid')
  expect((await reference(['post', ...priced('1.5'), ...operator()])).error).toContain('whole number')
  expect((await reference(['guess'])).error).toContain('usage: bun run reference')
  expect(ticks()).toBe(12_400)
})
