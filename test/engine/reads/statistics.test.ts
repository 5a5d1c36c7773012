/** Market statistics: counted, late, withheld, chained and verified; and those of a traded day equal its own fills. */

import { Database } from 'bun:sqlite'
import { afterAll, afterEach, expect, test } from 'bun:test'
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { StatisticsRefused, verifyStatistics } from '../../../client/verify/verify_receipt'
import type { AccountEventOut } from '../../../engine/machine/state/outcome'
import { PublicFacts } from '../../../engine/reads/public_facts'
import { MarketReads } from '../../../engine/reads/public_reads'
import { decodeBase58 } from '../../../protocol/base58'
import { STATEMENT_BODY } from '../../../protocol/bodies/statements'
import { fromHex } from '../../../protocol/bytes'
import { signingKey, verifySignature } from '../../../protocol/ed25519'
import type { Ticks } from '../../../protocol/units'
import type { Statistics, StatisticsPeriod, StatisticsRow } from '../../../protocol/wire/public'
import type { Fill } from '../../../protocol/wire/trading'
import { TestSite, type TestVenue } from '../../kit/venue/open_test_venue'
import { Trader } from '../../kit/venue/trader'
import { pointAt } from '../history/account_events'

const KEY = new Uint8Array(32).fill(5)
const VENUE = new Uint8Array(32).fill(9)
const SYMBOL = 'SOL-USDC'
const HOUR = 3_600_000
const DAY = 24 * HOUR
const START = 20_000 * DAY
/** From its end to its row. */
const DELAY = HOUR + 60_000
const folders: string[] = []
const opened: PublicFacts[] = []
afterEach(() => {
  for (const facts of opened.splice(0)) facts.close()
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true })
})

function open(): {
  folder: string
  facts: PublicFacts
  trade: (at_ms: number, batch: number, ...fills: Traded[]) => void
  refer: (at_ms: number, ticks: bigint) => void
} {
  const folder = mkdtempSync(join(tmpdir(), 'tacit-statistics-'))
  folders.push(folder)
  const facts = new PublicFacts(folder, KEY)
  opened.push(facts)
  let seq = 0
  const write = (command: Parameters<PublicFacts['record']>[1], events: AccountEventOut[]) => {
    facts.record(++seq, command, events, undefined)
    facts.seal(pointAt(seq))
  }
  return {
    folder,
    facts,
    trade(unix_ms, batch, ...fills) {
      write(
        { kind: 'resumed', unix_ms },
        fills.map((one) => event(one, batch, unix_ms)),
      )
    },
    refer(unix_ms, ticks) {
      const due = [{ symbol: SYMBOL, batch: 1, reference_ticks: Number(ticks) as Ticks, seed: KEY }]
      write({ kind: 'closed', unix_ms, seq: 1, capacity: 1, due } as never, [])
    },
  }
}

type Traded = { who: string; side: 'buy' | 'sell'; amount: string; price: string }
function event({ who, side, amount, price }: Traded, batch: number, unix_ms: number): AccountEventOut {
  const data = { side, amount, price, batch, symbol: SYMBOL } as AccountEventOut['event']['data']
  return { account_id: who, event: { seq: 1, kind: 'fill.matched', slot: 1, unix_ms, data } }
}
/** Accounts `from` to `to` each buy one from `maker`. */
const crowd = (from: number, to: number, price: string): Traded[] =>
  Array.from({ length: to - from }, (_, at) => ({ who: `a${from + at}`, side: 'buy', amount: '10', price }))
const sold = (amount: string, price: string): Traded => ({ who: 'maker', side: 'sell', amount, price })

/** Read until nothing more is published. */
function rowsOf(facts: PublicFacts, period: StatisticsPeriod, now_unix_ms: number, limit = 500) {
  for (let length = -1; ; ) {
    const terms = { venue: VENUE, symbol: SYMBOL, period }
    const page = facts.statistics.page(terms, { after_unix_s: 0, limit, now_unix_ms })
    if (page.items.length === length) return page
    length = page.items.length
  }
}

test('an hour shows its prices, volume and auctions with 20 accounts, and nothing with 19', () => {
  const { facts, refer, trade } = open()
  refer(START, 100n)
  trade(START + 5, 7, ...crowd(0, 10, '150'), sold('100', '150'))
  trade(START + 6, 7, ...crowd(10, 11, '150'))
  trade(START + 9, 8, ...crowd(0, 11, '140'))
  trade(START + 10, 9, ...crowd(11, 19, '145'))
  trade(START + HOUR + 1, 10, ...crowd(0, 18, '170'), sold('180', '170'))
  const [shown, hidden] = rowsOf(facts, 'hour', START + 2 * HOUR + DELAY).items
  expect(shown).toMatchObject({
    start_unix_s: START / 1_000,
    open: '150',
    high: '150',
    low: '140',
    close: '145',
    volume: '300',
    auctions: 3,
  })
  expect(hidden).toMatchObject({
    open: null,
    high: null,
    low: null,
    close: null,
    volume: null,
    auctions: null,
  })
})

test('a row appears a full hour and a batch after its end, not before, and pages lead to the end', () => {
  const { facts, refer } = open()
  refer(START, 100n)
  expect(rowsOf(facts, 'hour', START + HOUR + DELAY - 1).items).toEqual([])
  expect(rowsOf(facts, 'hour', START + HOUR + DELAY).items).toHaveLength(1)
  expect(rowsOf(facts, 'day', START + DAY + DELAY - 1).items).toEqual([])
  expect(rowsOf(facts, 'day', START + DAY + DELAY).items).toHaveLength(1)
  const first = rowsOf(facts, 'hour', START + DAY + DELAY, 10)
  expect([first.items.length, first.next_after]).toEqual([10, START / 1_000 + 9 * 3_600])
  const terms = { venue: VENUE, symbol: SYMBOL, period: 'hour' } as const
  const rest = { after_unix_s: first.next_after!, limit: 500, now_unix_ms: START + DAY + DELAY }
  expect(facts.statistics.page(terms, rest)).toMatchObject({ items: { length: 14 }, next_after: null })
})

test('a day is withheld while its hidden hours have too few accounts: they would follow by subtraction', () => {
  const { facts, refer, trade } = open()
  for (const at of [START, START + DAY, START + 2 * DAY]) refer(at, 100n)
  // A shown hour and one of three accounts.
  trade(START + 5, 1, ...crowd(0, 20, '150'), sold('200', '150'))
  trade(START + HOUR + 5, 2, ...crowd(0, 2, '190'), sold('20', '190'))
  // A shown hour, and hidden ones of 20 accounts together.
  trade(START + DAY + 5, 3, ...crowd(0, 20, '150'), sold('200', '150'))
  trade(START + DAY + HOUR, 4, ...crowd(0, 12, '190'))
  trade(START + DAY + 2 * HOUR, 5, ...crowd(12, 20, '180'), sold('5', '180'))
  // Shown hours alone.
  trade(START + 2 * DAY, 6, ...crowd(0, 20, '150'))
  const days = rowsOf(facts, 'day', START + 3 * DAY + DELAY).items
  expect(days.map(({ volume, high, auctions }) => [volume, high, auctions])).toEqual([
    [null, null, null],
    ['400', '190', 3],
    ['200', '150', 1],
  ])
  const told = facts.statistics.days(VENUE, [SYMBOL], START + 4 * DAY)
  expect(told.slice(0, 3)).toEqual([
    { day: '2024-10-06', symbol: SYMBOL, fills: 20, volume: '200' },
    { day: '2024-10-05', symbol: SYMBOL, fills: 40, volume: '400' },
    { day: '2024-10-04', symbol: SYMBOL, fills: null, volume: null },
  ])
})

test('after a long pause rows follow with later reads, a day never before its hours', () => {
  const { facts, refer, trade } = open()
  refer(START, 100n)
  trade(START + 5 * DAY + 5, 1, ...crowd(0, 20, '150'))
  const now_unix_ms = START + 6 * DAY + DELAY
  const days = () => {
    const terms = { venue: VENUE, symbol: SYMBOL, period: 'day' } as const
    return facts.statistics.page(terms, { after_unix_s: 0, limit: 500, now_unix_ms }).items
  }
  expect([days(), days(), days()].map(({ length }) => length)).toEqual([2, 4, 6])
  expect(days().map(({ volume }) => volume)).toEqual([null, null, null, null, null, '200'])
  expect(rowsOf(facts, 'hour', now_unix_ms).items).toHaveLength(6 * 24)
})

test('the published reference is that of the newest hour that is shown', () => {
  const { facts, refer, trade } = open()
  const at = (now_unix_ms: number) => facts.statistics.reference(VENUE, SYMBOL, now_unix_ms)
  refer(START, 100n)
  refer(START + 10, 101n)
  trade(START + 20, 1, ...crowd(0, 20, '150'))
  refer(START + HOUR, 120n)
  trade(START + HOUR + 20, 2, ...crowd(0, 2, '190'))
  expect(at(START + HOUR + DELAY - 1)).toBeUndefined()
  const shown = { ticks: '101', until_unix_s: START / 1_000 + 3_600 }
  expect(at(START + HOUR + DELAY)).toEqual(shown)
  expect(at(START + 5 * HOUR)).toEqual(shown)
})

const signer = signingKey(new Uint8Array(32).fill(3))
const IDENTITY = { venue: VENUE, statement_key: signer.public_key }

/** As the venue answers it. */
function answered(
  facts: PublicFacts,
  period: StatisticsPeriod,
  now_unix_ms: number,
  after = 0,
  limit = 500,
): Statistics {
  const seed = new Uint8Array(32).fill(3)
  const reads = new MarketReads({
    instruments: { one: (symbol: string) => ({ symbol }) } as never,
    statistics: facts.statistics,
    venue: VENUE,
    clock: { unixMs: () => now_unix_ms },
    signer: () => ({ epoch: 1, seed, statement_key: signer.public_key, certificate: new Uint8Array(64) }),
  })
  return reads.statistics(SYMBOL, { after, limit, period })
}
const asked = { symbol: SYMBOL, period: 'hour' } as const

test('a client verifies page after page, and a rewritten row of the past is refused', async () => {
  const now = START + DAY + DELAY
  const honest = open()
  const rewritten = open()
  for (const { refer, trade } of [honest, rewritten]) {
    refer(START, 100n)
    trade(START + 5, 1, ...crowd(0, 20, '150'))
  }
  honest.trade(START + 5 * HOUR, 2, ...crowd(0, 20, '150'))
  rewritten.trade(START + 5 * HOUR, 2, ...crowd(0, 20, '151'))
  const rows: StatisticsRow[] = []
  for (let after: number | null = 0; after !== null; ) {
    const page = answered(honest.facts, 'hour', now, after, 7)
    rows.push(...(await verifyStatistics(page, asked, IDENTITY, rows.at(-1))))
    after = page.next_after
  }
  expect(rows).toHaveLength(24)
  // Its second row as the first of all.
  const cut = answered(honest.facts, 'hour', now, rows[0]!.start_unix_s)
  expect(verifyStatistics(cut, asked, IDENTITY)).rejects.toThrow('an earlier row was rewritten')
  // The next hour of a venue that changed an hour before.
  const later = answered(rewritten.facts, 'hour', now + HOUR, rows.at(-1)!.start_unix_s)
  expect(later.items).toHaveLength(1)
  const refused = verifyStatistics(later, asked, IDENTITY, rows.at(-1))
  expect(refused).rejects.toThrow('an earlier row was rewritten')
  // The same facts after a restart of the count give the same rows.
  const again = open()
  again.refer(START, 100n)
  again.trade(START + 5, 1, ...crowd(0, 20, '150'))
  again.trade(START + 5 * HOUR, 2, ...crowd(0, 20, '150'))
  expect(answered(again.facts, 'hour', now).items).toEqual(rows)
})

test('a page with any figure, hash, order or signature changed is refused', async () => {
  const { facts, refer, trade } = open()
  refer(START, 100n)
  trade(START + 5, 1, ...crowd(0, 20, '150'))
  const page = answered(facts, 'hour', START + 6 * HOUR)
  expect(await verifyStatistics(page, asked, IDENTITY)).toHaveLength(page.items.length)
  const changes: ((page: Statistics) => unknown)[] = [
    ({ items }) => Object.assign(items[0]!, { volume: '201' }),
    ({ items }) => Object.assign(items[0]!, { high: '151' }),
    ({ items }) => Object.assign(items[0]!, { auctions: 2 }),
    ({ items }) =>
      Object.assign(items[1]!, { open: '1', high: '1', low: '1', close: '1', volume: '1', auctions: 1 }),
    ({ items }) => Object.assign(items[0]!, { previous: 'ab'.repeat(32) }),
    ({ items }) => Object.assign(items[2]!, { hash: 'ab'.repeat(32) }),
    ({ items }) => Object.assign(items[0]!, { open: null }),
    ({ items }) => Object.assign(items[0]!, { start_unix_s: 1 }),
    ({ items }) => items.splice(1, 1),
    ({ items }) => items.reverse(),
    ({ items }) => items.pop(),
    (one) => Object.assign(one, { symbol: 'JTO-USDC' }),
    (one) => Object.assign(one, { signed: null }),
    ({ signed }) => Object.assign(signed!, { signature: '00'.repeat(64) }),
    // The same number in another form has the same hash; a text that no number represents has none.
    ...[150, ['150'], 2 ** 70, '9'.repeat(20)].map(
      (close) =>
        ({ items }: Statistics) =>
          Object.assign(items[0]!, { close }),
    ),
    ...[2 ** 53 - 1, -3_600, 3_600 * 2 ** 41].map(
      (start_unix_s) =>
        ({ items }: Statistics) =>
          Object.assign(items[0]!, { start_unix_s }),
    ),
    ({ items }) => Object.assign(items[0]!, { auctions: -1 }),
    ({ items }) => items.splice(0, 1, null as never),
  ]
  for (const change of changes) {
    const changed = structuredClone(page)
    change(changed)
    const error = await verifyStatistics(changed, asked, IDENTITY).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(StatisticsRefused)
  }
  const stranger = { ...IDENTITY, venue: KEY }
  expect(verifyStatistics(page, asked, stranger)).rejects.toThrow('not the one of its hash')
})

function copyOf(folder: string): string {
  const copy = mkdtempSync(join(tmpdir(), 'tacit-statistics-'))
  folders.push(copy)
  cpSync(folder, copy, { recursive: true })
  return copy
}

/** The facts of a copy in which the host puts `value` in the place of a row, or deletes the row. */
function spliced(folder: string, name: string, value?: Uint8Array): PublicFacts {
  const copy = copyOf(folder)
  const db = new Database(join(copy, 'facts.sqlite'))
  const row = Buffer.from(name, 'hex')
  if (value === undefined) db.query('DELETE FROM facts WHERE name = ?').run(row)
  else db.query('INSERT OR REPLACE INTO facts (name, value) VALUES (?, ?)').run(row, value)
  db.close()
  const forged = new PublicFacts(copy, KEY)
  opened.push(forged)
  return forged
}

/** The rows of the store as the disk has them, by name. */
function rowsOn(folder: string): Map<string, Uint8Array> {
  const db = new Database(join(folder, 'facts.sqlite'), { readonly: true })
  const rows = db.query<{ name: Uint8Array; value: Uint8Array }, []>('SELECT name, value FROM facts').all()
  db.close()
  return new Map(rows.map(({ name, value }) => [Buffer.from(name).toString('hex'), value]))
}

test('a host that puts back rows of an earlier disk learns no difference between two counts of one hour', async () => {
  const { facts, folder, trade, refer } = open()
  const second = START + HOUR
  const takeRows = async () => {
    await facts.mark(facts.point())
    return rowsOn(folder)
  }
  refer(START, 100n)
  trade(START + 1, 1, sold('200', '100'), ...crowd(0, 20, '100'))
  const early = await takeRows()
  refer(START + 2, 101n)
  trade(START + 3, 2, sold('10', '105'), ...crowd(20, 21, '105'))
  const late = await takeRows()
  refer(second, 105n)
  const after = await takeRows()
  const unpublished = copyOf(folder)
  const { seq } = facts.point()
  const published = (of: PublicFacts) => {
    const row = rowsOf(of, 'hour', START + HOUR + DELAY).items[0]
    return [row, of.statistics.reference(VENUE, SYMBOL, START + HOUR + DELAY)]
  }
  let tried = 0
  for (const [name, value] of [...early, ...late]) {
    const now = after.get(name)
    if (now !== undefined && Buffer.compare(now, value) === 0) continue
    const forged = spliced(unpublished, name, value)
    tried += 1
    // The boot counts again from there, or withholds the hour where the journal does not reach back.
    if (forged.point().seq < seq) forged.lose(second)
    const [row, reference] = published(forged)
    expect([row, reference]).toEqual(
      forged.point().seq < seq ? [expect.objectContaining({ volume: null }), undefined] : published(facts),
    )
  }
  expect(tried).toBeGreaterThan(0)
  expect(published(facts)[0]).toMatchObject({ volume: '210', high: '105', auctions: 2 })
})

test('hours and days whose records were not all counted are withheld, later ones are not', () => {
  const { facts, trade, refer } = open()
  refer(START, 100n)
  trade(START + 1, 1, sold('250', '100'), ...crowd(0, 25, '100'))
  facts.lose(START + 2)
  trade(START + 3, 2, sold('250', '100'), ...crowd(0, 25, '100'))
  trade(START + HOUR, 3, sold('250', '100'), ...crowd(0, 25, '100'))
  trade(START + DAY, 4, sold('250', '100'), ...crowd(0, 25, '100'))
  const volumes = (period: StatisticsPeriod) =>
    rowsOf(facts, period, START + 3 * DAY)
      .items.slice(0, 2)
      .map(({ volume }) => volume)
  expect(volumes('hour')).toEqual([null, '250'])
  expect(volumes('day')).toEqual([null, '250'])
})

test('a host that puts back the rows of an unpublished day, without one of them, has no day published a second time with other figures', async () => {
  const { facts, folder, trade, refer } = open()
  refer(START, 100n)
  trade(START + 1, 1, sold('200', '100'), ...crowd(0, 20, '100'))
  // Hidden: two accounts, and others that hide them.
  trade(START + HOUR, 2, sold('10', '170'), ...crowd(50, 51, '170'))
  trade(START + 2 * HOUR, 3, ...crowd(0, 12, '110'))
  trade(START + 3 * HOUR, 4, ...crowd(12, 22, '120'))
  refer(START + DAY, 120n)
  await facts.mark(facts.point())
  const unpublished = copyOf(folder)
  const now = START + 2 * DAY + DELAY
  const dayOf = (of: PublicFacts) => {
    const { hash: _, previous: __, ...figures } = rowsOf(of, 'day', now).items[0]!
    return figures
  }
  const shown = dayOf(facts)
  expect(shown).toMatchObject({ volume: '430', high: '170', auctions: 4 })
  const volumes: (string | null)[] = []
  for (const name of rowsOn(unpublished).keys()) {
    const forged = spliced(unpublished, name)
    // Without the point the boot counts again.
    if (forged.point().seq > 0) volumes.push(dayOf(forged).volume)
  }
  expect(new Set(volumes)).toEqual(new Set(['430', null]))
})

test('a published row that the host deletes does not end the list: the client misses it', async () => {
  const { facts, folder, trade, refer } = open()
  const now = START + 6 * HOUR
  refer(START, 100n)
  trade(START + 5, 1, ...crowd(0, 20, '150'))
  const page = answered(facts, 'hour', now)
  expect(await verifyStatistics(page, asked, IDENTITY)).toHaveLength(4)
  await facts.mark(facts.point())
  let missed = 0
  for (const name of rowsOn(folder).keys()) {
    const forged = spliced(folder, name)
    if (forged.point().seq === 0) continue
    const left = answered(forged, 'hour', now)
    if (left.items.length === page.items.length) continue
    missed += 1
    expect(left.items).toHaveLength(3)
    // The newest one is missed at the next row.
    if (left.items.at(-1)!.hash === page.items.at(-2)!.hash) continue
    const error = await verifyStatistics(left, asked, IDENTITY).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(StatisticsRefused)
  }
  expect(missed).toBe(4)
})

/** A whole hour of the chain's clock. */
const TRADED_START = 20_000 * 24 * HOUR
const site = new TestSite()
afterAll(() => site.remove())

async function fillsOf(open: TestVenue, traders: readonly Trader[]): Promise<Fill[]> {
  const lists = traders.map(({ account_id }) => open.venue.fills(account_id, { after: 0, limit: 500 }))
  return (await Promise.all(lists)).flatMap(({ items }) => items)
}
const page = { after: 0, limit: 500, period: 'hour' } as const
const sum = (values: readonly string[]) => String(values.reduce((total, one) => total + BigInt(one), 0n))

test('rows equal a recount of every account’s fills, are certified, and survive a restart', async () => {
  let now = TRADED_START + 60_000
  site.unixMs = () => now
  let open = await site.open()
  const traders: Trader[] = []
  for (let at = 0; at < 20; at++) traders.push(await Trader.provisioned(open, `trader-${at}`))
  const prices = [101_000_000n, 99_000_000n, 100_000_000n]
  for (const price of prices) {
    const orders = traders.map((trader, at) => {
      const side = at % 2 === 0 ? 'buy' : 'sell'
      const deposit =
        side === 'buy' ? trader.deposit('quote', 300_000_000n) : trader.deposit('base', 2_000_000_000n)
      return { trader, deposit, terms: { side, price_limit: String(price) } as const }
    })
    await open.chain.finalizeLeaves()
    for (const { trader, deposit, terms } of orders)
      await open.venue.place(trader.account_id, trader.place(deposit, terms))
    await open.chain.tick(6)
    await open.engine.pump.idle()
  }
  const fills = await fillsOf(open, traders)
  expect(fills.length).toBeGreaterThanOrEqual(20)
  now += HOUR
  await open.chain.tick(6)
  expect(open.venue.statistics(SYMBOL, page)).toMatchObject({ items: [], signed: null })
  expect(open.venue.instrument(SYMBOL).reference).toBeNull()
  now = TRADED_START + 2 * HOUR + 60_000
  await open.chain.tick(6)
  const told = open.venue.statistics(SYMBOL, page)
  const ordered = fills.toSorted((a, b) => a.batch - b.batch)
  expect(told.items).toHaveLength(1)
  expect(told.items[0]).toMatchObject({
    start_unix_s: TRADED_START / 1_000,
    open: ordered[0]!.price,
    close: ordered.at(-1)!.price,
    high: fills.map(({ price }) => price).sort((a, b) => Number(BigInt(b) - BigInt(a)))[0],
    low: fills.map(({ price }) => price).sort((a, b) => Number(BigInt(a) - BigInt(b)))[0],
    volume: sum(fills.filter(({ side }) => side === 'buy').map(({ amount }) => amount)),
    auctions: new Set(fills.map(({ batch }) => batch)).size,
  })
  const venue = fromHex(open.venue.identity().venue, 32)!
  const statement_key = decodeBase58(told.signed!.statement_key, 32)!
  const asked = { symbol: SYMBOL, period: 'hour' } as const
  const rows = await verifyStatistics(told, asked, { venue, statement_key })
  const statement = STATEMENT_BODY.encode({ venue, statement_key, epoch: BigInt(told.signed!.epoch) })
  const settlement_key = (await open.chain.readConfig()).settlement_signer
  expect(verifySignature(fromHex(told.signed!.certificate, 64)!, statement, settlement_key)).toBe(true)
  const { reference } = open.venue.instrument(SYMBOL)
  expect(reference).toMatchObject({ until_unix_s: TRADED_START / 1_000 + 3_600 })
  expect(open.venue.instrument(SYMBOL).reference).toBe(reference!)

  await open.close()
  now += HOUR
  open = await site.open()
  await open.chain.tick(6)
  const later = open.venue.statistics(SYMBOL, page)
  expect(later.items.slice(0, 1)).toEqual(rows)
  expect(
    await verifyStatistics(
      { ...later, items: later.items.slice(1) },
      asked,
      { venue, statement_key },
      rows[0],
    ),
  ).toHaveLength(1)
  expect(later.signed!.epoch).toBe(told.signed!.epoch + 1)
}, 180_000)
