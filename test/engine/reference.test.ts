/** Oracle prices: who may give them, when they count, what auctions make of them, and that a replay agrees. */
import { afterEach, describe, expect, test } from 'bun:test'
import { loadState } from '../../engine/boot/load_state'
import { checkConfig } from '../../engine/config'
import { encodeState } from '../../engine/machine/codec/encode_state'
import { AUCTION_RECORD } from '../../engine/sequencer/replayer'
import { toHex } from '../../protocol/bytes'
import { bytes } from '../kit/venue/memory_chain'
import { type TestVenue, testConfig } from '../kit/venue/open_test_venue'
import { MAX_AGE_MS, ORACLE_SYMBOL, OracleSite, SOURCE } from '../kit/venue/oracle_site'
import { refusalOf } from '../kit/venue/refusal_of'

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
  for await (const { type, body } of engine.loaded.journal.read(1)) {
    if (type === AUCTION_RECORD) found.push(JSON.parse(new TextDecoder().decode(body)))
  }
  return found.filter(({ symbol }) => symbol === ORACLE_SYMBOL)
}
const post = (price: unknown) => site.venue.venue.postReference(price)
const codeOf = async (price: unknown): Promise<string> => (await refusalOf(post(price))).code

describe('a price', () => {
  test('counts once it is durable, and the venue shows it to nobody', async () => {
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

test('a venue does not start with an oracle instrument nobody prices, or a source nobody asks for', () => {
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
