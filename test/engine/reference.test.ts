/** Oracle prices: who may give them, when they count, how auctions use them, and the command that posts them. */

import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openOperatorCheck } from '../../engine/accounts/verify_operator'
import { loadState } from '../../engine/boot/load_state'
import { checkConfig, type EngineConfig } from '../../engine/config'
import { encodeState } from '../../engine/machine/codec/state_codec'
import { AUCTION_RECORD } from '../../engine/sequencer/replayer'
import { encodeBase58 } from '../../protocol/base58'
import { type SignedReferencePrice, signReferencePrice } from '../../protocol/bodies/signed_calls'
import { fromHex, toHex } from '../../protocol/bytes'
import { publicKeyOf } from '../../protocol/sign'
import type * as wire from '../../protocol/wire/trading'
import { openLog } from '../../server/edge/log'
import { openMeters } from '../../server/edge/meters'
import { operatorApp } from '../../server/operator/operator'
import { type Listener, listen } from '../../server/tls/listen'
import { run } from '../kit/said'
import { bytes } from '../kit/venue/memory_chain'
import { TestSite, type TestVenue, testConfig } from '../kit/venue/open_test_venue'
import { refusalOf } from '../kit/venue/refusal_of'
import { Trader } from '../kit/venue/trader'
import { recordsOf } from './journal/folder'

export const ORACLE_SYMBOL = 'SOL-USDC'
export const SOURCE = 'feed-1'
export const MAX_AGE_MS = 5_000

type Placed = { account_id: string; order_id: string }
type Terms = Partial<EngineConfig['instruments'][number]>

export class OracleSite extends TestSite {
  readonly source_seed = bytes(32)
  now_ms = 1_800_000_000_000
  venue!: TestVenue
  override unixMs = (): number => this.now_ms

  oracleConfig(terms: Terms = {}): Pick<EngineConfig, 'instruments' | 'reference_sources'> {
    const [first, ...others] = testConfig('').instruments
    const oracle = { ...first!, reference_policy: 'oracle' as const, ...terms }
    const key = encodeBase58(publicKeyOf(this.source_seed))
    const sources = [{ source: SOURCE, key }]
    return {
      instruments: [oracle, ...others],
      reference_sources: [{ symbol: ORACLE_SYMBOL, max_age_ms: MAX_AGE_MS, sources }],
    }
  }

  async openOracle(terms: Terms = {}): Promise<TestVenue> {
    this.venue = await this.open(this.oracleConfig(terms))
    return this.venue
  }

  get venue_id(): Uint8Array {
    return fromHex(this.venue.venue.identity().venue, 32)!
  }

  /** A price signed by the source; `change` replaces signed fields. */
  price(
    price: bigint,
    change: { venue?: Uint8Array; symbol?: string; source?: string; publish_unix_ms?: number } = {},
    seed = this.source_seed,
  ): SignedReferencePrice {
    const fields = { venue: this.venue_id, symbol: ORACLE_SYMBOL, source: SOURCE }
    return signReferencePrice({ ...fields, publish_unix_ms: this.now_ms, price, ...change }, seed)
  }

  /** Places one buy and one sell, of two accounts. */
  async placeBoth(
    buy: Partial<wire.CheckRequest>,
    sell: Partial<wire.CheckRequest>,
  ): Promise<{ buy: Placed; sell: Placed }> {
    const bought = await this.placeOne('quote', buy)
    const sold = await this.placeOne('base', { side: 'sell', ...sell })
    return { buy: bought, sell: sold }
  }

  async placeOne(side: 'base' | 'quote', terms: Partial<wire.CheckRequest>): Promise<Placed> {
    const account_id = `account-${this.ledger.notes.leaf_count}`
    const trader = await Trader.provisioned(this.venue, account_id)
    const from = this.ledger.notes.leaf_count
    const order = trader.place(trader.deposit(side, 5_000_000_000n), terms)
    await this.venue.chain.finalizeLeaves(from)
    await this.venue.venue.place(account_id, order)
    return { account_id, order_id: order.order_id }
  }
}

let site = new OracleSite()
afterEach(async () => {
  await site.remove()
  site = new OracleSite()
})

type Recorded = { symbol: string; reference_ticks: number; price_ticks: number | null; volume_lots: number }
/** Auctions of the oracle instrument, as the journal has them. */
async function auctions({ engine }: TestVenue): Promise<Recorded[]> {
  await engine.sequencer.durable()
  const found: Recorded[] = []
  for await (const { type, body } of recordsOf(engine.loaded.journal)) {
    if (type === AUCTION_RECORD) found.push(JSON.parse(new TextDecoder().decode(body)))
  }
  return found.filter(({ symbol }) => symbol === ORACLE_SYMBOL)
}
const post = (price: unknown) => site.venue.venue.postReference(price)
const codeOf = async (price: unknown): Promise<string> => (await refusalOf(post(price))).code

describe('a price', () => {
  test('counts once it is durable, and the venue shows it to no one', async () => {
    const open = await site.openOracle()
    const before = JSON.stringify(open.venue.instruments())
    const posted = await post(site.price(123_450_000n))
    expect(posted).toMatchObject({ symbol: ORACLE_SYMBOL, publish_unix_ms: site.now_ms })
    expect(open.engine.sequencer.seq_durable).toBeGreaterThanOrEqual(posted.seq)
    expect(open.engine.state.instruments.get(ORACLE_SYMBOL)).toMatchObject({
      reference_ticks: 12_345,
      reference_source: SOURCE,
    })
    expect(JSON.stringify(open.venue.instruments())).toBe(before)
    expect(JSON.stringify(open.venue.metrics())).not.toContain('12345')
  })

  test('is refused from another key, for another venue, under another name, and changed after signing', async () => {
    await site.openOracle()
    const refused = 'reference_source_invalid'
    expect(await codeOf(site.price(100_000_000n, {}, bytes(32)))).toBe(refused)
    expect(await codeOf(site.price(100_000_000n, { venue: bytes(32) }))).toBe(refused)
    expect(await codeOf(site.price(100_000_000n, { source: 'feed-2' }))).toBe(refused)
    const good = site.price(100_000_000n)
    expect(await codeOf({ ...good, price: '100000001' })).toBe(refused)
    expect(await codeOf({ ...good, publish_unix_ms: good.publish_unix_ms - 1 })).toBe(refused)
    expect(await codeOf({ ...good, signature: '00'.repeat(64) })).toBe(refused)
    expect((await post(good)).symbol).toBe(ORACLE_SYMBOL)
  })

  test('is refused when it is old, ahead of time, posted twice, or older than the known one', async () => {
    const open = await site.openOracle()
    const at = (publish_unix_ms: number) => site.price(100_000_000n, { publish_unix_ms })
    expect(await codeOf(at(site.now_ms - MAX_AGE_MS - 1))).toBe('reference_stale')
    expect(await codeOf(at(site.now_ms + 5_001))).toBe('reference_stale')
    const first = at(site.now_ms - MAX_AGE_MS)
    const posting = post(first)
    expect(await codeOf(first)).toBe('reference_stale')
    // Of a price that is applied and not durable yet nothing is said.
    const { seq_durable, seq_executed } = open.engine.sequencer
    expect(seq_durable).toBe(seq_executed)
    await posting
    expect(await codeOf(first)).toBe('reference_stale')
    await post(at(site.now_ms))
    expect(await codeOf(at(site.now_ms - 1))).toBe('reference_stale')
    expect(await codeOf(site.price(200_000_000n))).toBe('reference_stale')
  })

  test('is refused without its form, an instrument that asks for it, or a tick near it', async () => {
    await site.openOracle()
    const good = site.price(100_000_000n)
    const faulty: [unknown, string, string | undefined][] = [
      [[], 'field_invalid', 'body'],
      [{ ...good, extra: 1 }, 'field_unknown', 'body'],
      [{ ...good, signature: undefined }, 'field_missing', 'signature'],
      [{ ...good, price: 100 }, 'field_invalid', 'price'],
      [{ ...good, source: 'FEED' }, 'field_invalid', 'source'],
      [{ ...good, publish_unix_ms: String(site.now_ms) }, 'field_invalid', 'publish_unix_ms'],
      [site.price(1n), 'field_invalid', 'price'],
      [site.price(2n ** 64n - 1n), 'field_invalid', 'price'],
      [site.price(100_000_000n, { symbol: 'ALT-USDC' }), 'field_invalid', 'symbol'],
      [site.price(100_000_000n, { symbol: 'NOT-HERE' }), 'instrument_unknown', undefined],
    ]
    for (const [value, code, field] of faulty) {
      const refusal = await refusalOf(post(value))
      expect([refusal.code, refusal.facts.field]).toEqual([code as never, field])
    }
  })

  test('is refused while the venue acknowledges nothing', async () => {
    const open = await site.openOracle()
    open.chain.sink.halted('forked')
    expect(await codeOf(site.price(100_000_000n))).toBe('matching_unavailable')
  })
})

describe('an auction of an oracle instrument', () => {
  test('is skipped without a price and with an old one, and held with a fresh one', async () => {
    const open = await site.openOracle()
    const { buy } = await site.placeBoth({}, { price_limit: '100000000' })
    await open.chain.tick(2)
    expect(await auctions(open)).toEqual([])
    await post(site.price(101_000_000n))
    site.now_ms += MAX_AGE_MS + 1
    await open.chain.tick(2)
    expect(await auctions(open)).toEqual([])
    await post(site.price(100_500_000n))
    site.now_ms += MAX_AGE_MS
    await open.chain.tick(2)
    await open.engine.pump.idle()
    expect(await auctions(open)).toMatchObject([{ reference_ticks: 10_050, volume_lots: 1000 }])
    expect((await open.venue.order(buy.account_id, buy.order_id)).status).toBe('filled')
  })

  test('crosses only inside the collar around the price, and trading does not move the reference', async () => {
    const open = await site.openOracle({ collar_bps: 100 })
    await site.placeBoth({ price_limit: '103000000' }, { price_limit: '103000000' })
    await post(site.price(100_000_000n))
    await open.chain.tick(2)
    expect(await auctions(open)).toMatchObject([{ reference_ticks: 10_000, price_ticks: null }])
    site.now_ms += 1
    await post(site.price(102_500_000n))
    await open.chain.tick(2)
    expect((await auctions(open)).at(-1)).toMatchObject({ reference_ticks: 10_250, price_ticks: 10_300 })
    await site.placeBoth({}, { price_limit: '102000000' })
    await open.chain.tick(2)
    expect((await auctions(open)).at(-1)).toMatchObject({ reference_ticks: 10_250, volume_lots: 0 })
  })

  /** 1000 lots trade at 98 to 99, 900 lots at 99.01 to 104. */
  const books = async () => {
    await site.placeOne('quote', { amount: '900000000', price_limit: '104000000' })
    await site.placeOne('quote', { amount: '100000000', price_limit: '99000000' })
    await site.placeOne('base', { side: 'sell', amount: '1000000000', price_limit: '98000000' })
  }
  const tolerances: [volume_tolerance_bps: number, price_ticks: number, volume_lots: number][] = [
    [0, 9_900, 1000],
    [999, 9_900, 1000],
    [1_000, 10_250, 900],
  ]
  for (const [volume_tolerance_bps, price_ticks, volume_lots] of tolerances) {
    test(`under rule ref with tolerance ${volume_tolerance_bps} clears ${volume_lots} lots at ${price_ticks}`, async () => {
      const open = await site.openOracle({ price_rule: 'ref', volume_tolerance_bps })
      await books()
      await post(site.price(102_500_000n))
      await open.chain.tick(2)
      expect(await auctions(open)).toMatchObject([{ reference_ticks: 10_250, price_ticks, volume_lots }])
    })
  }
})

describe('after a restart', () => {
  test('a replay reaches the same state, and known prices stay known', async () => {
    const first = await site.openOracle()
    await site.placeBoth({}, {})
    const known = site.price(100_000_000n)
    await post(known)
    await first.chain.tick(2)
    await first.engine.pump.idle()
    const state = toHex(encodeState(first.engine.state))
    await first.close()
    const ports = { keys: site.keys, chain: first.chain }
    const loaded = await loadState(first.config, ports, await first.chain.readConfig(), {
      segment_bytes: 2 * 1024 * 1024,
    })
    expect(toHex(encodeState(loaded.state))).toBe(state)
    await loaded.journal.close()
    await loaded.history.close()
    loaded.facts.close()
    await site.openOracle()
    expect(await codeOf(known)).toBe('reference_stale')
  })

  test('the price of a source that is no longer named counts no more', async () => {
    const first = await site.openOracle()
    await site.placeBoth({}, {})
    await post(site.price(100_000_000n))
    await first.close()
    const { instruments, reference_sources } = site.oracleConfig()
    const [rule] = reference_sources!
    const sources = [{ ...rule!.sources[0]!, source: 'feed-2' }]
    site.venue = await site.open({ instruments, reference_sources: [{ ...rule!, sources }] })
    await site.venue.chain.tick(4)
    expect(await auctions(site.venue)).toEqual([])
    site.now_ms += 1
    await post(site.price(100_000_000n, { source: 'feed-2' }))
    await site.venue.chain.tick(2)
    expect(await auctions(site.venue)).toMatchObject([{ volume_lots: 1000 }])
  })
})

test('a venue does not start with an oracle instrument without a source, or a source without an instrument', () => {
  const { instruments, reference_sources } = site.oracleConfig()
  const good = { ...testConfig('/data'), instruments, reference_sources: reference_sources! }
  const [rule] = reference_sources!
  const faultOf = (change: object) => checkConfig({ ...good, ...change })
  expect(faultOf({})).toEqual([])
  expect(faultOf({ reference_sources: [] })).toEqual([
    'reference_sources: SOL-USDC has reference_policy oracle and names no source',
  ])
  expect(faultOf({ instruments: testConfig('').instruments })).toEqual([
    'reference_sources: SOL-USDC has no reference_policy oracle',
  ])
  expect(faultOf({ reference_sources: [rule, rule] })).toEqual(['reference_sources: SOL-USDC is named twice'])
  expect(faultOf({ reference_sources: [rule, { ...rule, symbol: 'NONE' }] })).toEqual([
    'reference_sources: NONE is not an instrument',
  ])
  const [source] = rule!.sources
  const ruled = (change: object) => faultOf({ reference_sources: [{ ...rule, ...change }] })
  expect(ruled({ max_age_ms: 60_001 })).toEqual(['reference_sources[0].max_age_ms: 1000 to 60000'])
  expect(ruled({ sources: [] })).toEqual(['reference_sources[0].sources: at least one is required'])
  expect(ruled({ sources: [{ ...source, source: 'A' }] })).toHaveLength(1)
  expect(ruled({ sources: [{ ...source, key: 'x' }] })).toHaveLength(1)
  expect(ruled({ sources: [source, source] })).toHaveLength(2)
})

const MAIN = join(import.meta.dir, '../../tools/reference/main.ts')
const folder = mkdtempSync(join(tmpdir(), 'reference-'))
const referenceSite = new OracleSite()
const operator_seed = bytes(32)
const lines: string[] = []
let listener: Listener

beforeAll(async () => {
  referenceSite.unixMs = () => Date.now()
  const { venue } = await referenceSite.openOracle()
  const clock = { unixMs: () => Date.now() - 1_000, monotonicMs: () => performance.now() }
  const operator_key = encodeBase58(publicKeyOf(operator_seed))
  const app = operatorApp({
    venue: venue.parsed,
    log: openLog((line) => lines.push(line), clock.unixMs),
    clock,
    documents: { json: '{}', html: '', css: '', streams: '', index: '', files: new Map() },
    check: openOperatorCheck({ operator_key, venue: referenceSite.venue_id, clock }),
    app: { meters: openMeters() },
    ends: () => ({ certificate_ms: 0, collateral_ms: 0 }),
    drain: () => undefined,
  })
  listener = listen(app, { hostname: '127.0.0.1', port: 0 })
  writeFileSync(join(folder, 'source.key'), toHex(referenceSite.source_seed))
  writeFileSync(join(folder, 'operator.key'), toHex(operator_seed))
})
afterAll(async () => {
  await listener.stop(0)
  await referenceSite.remove()
  rmSync(folder, { recursive: true })
})

const reference = (args: string[], input = '') =>
  run([process.execPath, MAIN, ...args], { cwd: folder, stdin: new Blob([input]) })
const priced = (price: string) => {
  const what = ['--symbol', ORACLE_SYMBOL, '--source', SOURCE, '--price', price]
  return [...what, '--source-key', 'source.key', '--venue', toHex(referenceSite.venue_id)]
}
const operator = (key = 'operator.key') => ['--operator-key', key, '--url', listener.url]
const ticks = () => referenceSite.venue.engine.state.instruments.get(ORACLE_SYMBOL)!.reference_ticks

test('a source key is made once, for its owner alone', async () => {
  const made = await reference(['keygen', '--out', 'fresh.key'])
  expect(JSON.parse(made.out).key).toMatch(/^[1-9A-HJ-NP-Za-km-z]{32,44}$/)
  expect(statSync(join(folder, 'fresh.key')).mode & 0o777).toBe(0o600)
  expect((await reference(['keygen', '--out', 'fresh.key'])).code).toBe(74)
})

test('a price signed by the source and posted by the operator becomes the reference, once', async () => {
  const signed = await reference(['sign', ...priced('123450000')])
  expect(signed).toMatchObject({ code: 0, error: '' })
  const posting = ['post', '--record', '-', '--venue', toHex(referenceSite.venue_id), ...operator()]
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
