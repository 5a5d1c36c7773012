/** Events lie in sealed blocks and everything else points at them; no file shows an account, an id, a size, a side or a time. */

import { Database } from 'bun:sqlite'
import { afterAll, expect, test } from 'bun:test'
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { HistoryBroken } from '../../../engine/history/contract'
import { openWritable, saltReader } from '../../../engine/history/database'
import { blockRow, HiddenIds, Names, Unsealer } from '../../../engine/history/seal'
import { eventWriter } from '../../../engine/history/write_tables'
import { fromHex, u64Le } from '../../../protocol/bytes'
import type * as wire from '../../../protocol/wire/trading'
import { filesOf, findMarks, marksOf, missedPlants } from '../../kit/venue/marks'
import { TestSite } from '../../kit/venue/open_test_venue'
import { accountId, testCredential } from '../../kit/venue/test_login'
import { Trader } from '../../kit/venue/trader'
import {
  DAY_MS,
  fill,
  id,
  KEY,
  logged,
  order,
  type ParsedHistory,
  pointAt,
  Recorder,
  START_MS,
  withFolder,
  withHistory,
} from './account_events'

const day = (n: number) => START_MS + n * DAY_MS

/** Alice's orders 1 to 40 and bob's 101 to 140, then `change` to the file, then `look`. */
async function afterChange(
  change: (db: Database) => void,
  look: (history: ParsedHistory) => void,
): Promise<void> {
  await withFolder(async (dir) => {
    await withHistory(dir, async (history) => {
      const recorder = new Recorder(history)
      for (let n = 1; n <= 40; n++) {
        recorder.record('alice', 'order.accepted', order(n, 'accepted'))
        recorder.record('bob', 'order.accepted', order(100 + n, 'accepted'))
      }
      recorder.record('alice', 'fill.matched', fill(1, 0, 'matched'))
    })
    const db = new Database(join(dir, 'history.sqlite'))
    db.run('PRAGMA busy_timeout = 10000')
    change(db)
    db.close()
    await withHistory(dir, async (history) => look(history))
  })
}

const [ALICE, BOB] = ['alice', 'bob'].map((name) => new Names(KEY).number(name)) as [number, number]
const hidden = (n: number) => new HiddenIds(KEY, 'order').hide(id(n))

test('the length of a block shows the number of its events, and neither side nor amount nor kind', async () => {
  const lengthsOf = async (...events: [wire.EventKind, Partial<wire.Order>][]) => {
    let lengths: unknown[] = []
    await withFolder(async (dir) => {
      await withHistory(dir, async (history) => {
        const recorder = new Recorder(history)
        for (const [kind, change] of events)
          recorder.record('alice', kind, { ...order(1, 'accepted'), ...change })
      })
      const db = new Database(join(dir, 'history.sqlite'))
      lengths = db.query('SELECT seq_first, seq_last, length(sealed) FROM blocks').values()
      db.close()
    })
    return lengths
  }
  const shown = await lengthsOf(['order.accepted', { side: 'buy', amount: '1' }], ['order.expired', {}])
  expect(shown).toHaveLength(1)
  const others = { side: 'sell', type: 'limit', amount: '9'.repeat(19), price_limit: '9'.repeat(18) } as const
  expect(
    await lengthsOf(['order.accepted', others], ['order.cancelled', { ...others, reason: 'by_owner' }]),
  ).toEqual(shown)
})

test('a block holds the texts of its events as lines, with white space to a length by their number', async () => {
  await withFolder(async (dir) => {
    const { db, sealer } = openWritable(dir, KEY)
    const events: wire.AccountEvent[] = []
    const add = (kind: wire.EventKind, ms: number, data: wire.AccountEvent['data']) =>
      events.push({ seq: events.length + 1, kind, slot: 6, unix_ms: START_MS + ms, data })
    add('order.accepted', 0, order(1, 'accepted'))
    add('order.cancelled', 60_001, order(1, 'cancelled', { reason: 'by_owner' }))
    for (let n = 0; n < 70; n++) add('fill.matched', 60_002 + n, fill(n, 0, 'matched'))
    const fills = Array.from({ length: 12 }, (_, index) => fill(1, index, 'matched'))
    for (let n = 0; n < 9; n++) add('order.filled', 60_100, order(n, 'filled', { fills }))
    const all = events.map((event) => ({ account_id: 'alice', event }))
    const step = eventWriter(db, KEY, new Names(KEY), sealer).write(logged(all), pointAt(1))
    while (step());
    const unsealer = new Unsealer(KEY, saltReader(db))
    const rows = db
      .query<{ seq_first: number; seq_last: number; sealed: Uint8Array }, []>(
        'SELECT seq_first, seq_last, sealed FROM blocks ORDER BY seq_first',
      )
      .all()
    for (const { seq_first, seq_last, sealed } of rows) {
      const lines = events.slice(seq_first - 1, seq_last).map((event) => JSON.stringify(event))
      const text = lines.join('\n')
      const padded = text.padEnd(Math.max(lines.length, Math.ceil(text.length / 640)) * 640)
      expect(unsealer.unseal(blockRow('alice', seq_first), sealed)).toBe(padded)
    }
    // By time, by number twice, by length.
    expect(rows.map(({ seq_last }) => seq_last)).toEqual([1, 33, 65, 79, 81])
    db.close()
  })
})

test('a sealed block moved to another account does not open', async () => {
  await afterChange(
    (db) => {
      for (const [from, to] of [
        [ALICE, 3],
        [BOB, ALICE],
        [3, BOB],
      ]) {
        db.run('UPDATE blocks SET account = ? WHERE account = ?', [to!, from!])
      }
    },
    (history) => expect(() => history.events('alice', 0, 5)).toThrow(HistoryBroken),
  )
})

test('accounts that change their numbers do not get the events of each other', async () => {
  await afterChange(
    (db) => {
      db.run('UPDATE accounts SET account = 3 WHERE account = ?', [ALICE])
      db.run('UPDATE accounts SET account = ? WHERE account = ?', [ALICE, BOB])
      db.run('UPDATE accounts SET account = ? WHERE account = 3', [BOB])
    },
    (history) => {
      expect(() => history.events('alice', 0, 5)).toThrow(HistoryBroken)
      expect(() => history.order(id(1))).toThrow(HistoryBroken)
    },
  )
})

test('a block does not pass for other events than it holds', async () => {
  await afterChange(
    (db) => db.run('UPDATE blocks SET seq_last = 31 WHERE seq_first = 1'),
    (history) => expect(() => history.events('alice', 0, 5)).toThrow(HistoryBroken),
  )
})

test('an order whose row points at the event of another order is not shown', async () => {
  await afterChange(
    (db) => db.run('UPDATE orders SET event = 2 WHERE id = ?', [hidden(1)]),
    (history) => {
      expect(history.order(id(2))?.order_id).toBe(id(2))
      expect(() => history.order(id(1))).toThrow(HistoryBroken)
    },
  )
  await afterChange(
    // A fill of the same order is no order.
    (db) => db.run('UPDATE orders SET event = 41 WHERE id = ?', [hidden(1)]),
    (history) => expect(() => history.orders('alice', { after: 0, limit: 5 })).toThrow(HistoryBroken),
  )
})

test('an id is hidden as itself alone: every other id, and every other kind of id, looks different', () => {
  const orders = new HiddenIds(KEY, 'order')
  const again = new HiddenIds(KEY, 'order')
  const seen = new Set<string>()
  for (let n = 0; n < 500; n++) {
    const bytes = orders.hide(id(n))
    expect([...again.hide(id(n))]).toEqual([...bytes])
    expect(again.reveal(bytes)).toBe(id(n))
    seen.add(bytes.toHex())
  }
  expect(seen.size).toBe(500)
  expect(seen.has(new HiddenIds(KEY, 'withdrawal').hide(id(1)).toHex())).toBe(false)
  expect(() => orders.hide('ab')).toThrow(RangeError)
  expect(orders.reveal(orders.hide(id(7)))).toBe(id(7))
})

test('an order that outlives its events stays readable, its neighbours do not come back as events', async () => {
  await withFolder(async (dir) => {
    await withHistory(dir, async (history) => {
      const recorder = new Recorder(history)
      for (let n = 1; n <= 100; n++) recorder.record('alice', 'order.accepted', order(n, 'accepted'), day(0))
      for (let n = 1; n <= 100; n++) {
        if (n !== 50) recorder.record('alice', 'order.cancelled', order(n, 'cancelled'), day(0))
      }
      await history.flush()
      await history.prune(day(31))
      expect(history.events('alice', 0, 500)).toEqual({ items: [], next_after: null })
      expect([history.seqFirst('alice'), history.seqLast('alice')]).toEqual([200, 199])
      expect(history.order(id(50))?.status).toBe('accepted')
      expect(history.order(id(51))).toBeUndefined()
      expect(history.orders('alice', { status: 'open', after: 0, limit: 9 }).items.length).toBe(1)
    })
    const db = new Database(join(dir, 'history.sqlite'), { readonly: true })
    // The one block that is still needed.
    expect(db.query('SELECT count(*) AS blocks FROM blocks').get()).toEqual({ blocks: 1 })
    db.close()
    await withHistory(dir, async (history) => {
      const recorder = new Recorder(history, history.watermark())
      for (let seq = 1; seq < 200; seq++) recorder.event('alice', 'order.accepted', order(1, 'accepted'))
      recorder.record('alice', 'order.cancelled', order(50, 'cancelled'), day(32))
      await history.flush()
      await history.prune(day(63))
      expect(history.order(id(50))).toBeUndefined()
    })
    const after = new Database(join(dir, 'history.sqlite'), { readonly: true })
    expect(after.query('SELECT count(*) AS blocks FROM blocks').get()).toEqual({ blocks: 0 })
    after.close()
  })
})

const MS_PER_HOUR = 3_600_000
const AMOUNT = 1_357_000_000n
const PRICE = 99_870_000n
const site = new TestSite()
afterAll(() => site.remove())

/** How SQLite stores an integer of this size. */
function bigEndian(value: number): Buffer {
  const bytes = Buffer.alloc(6)
  bytes.writeUIntBE(value, 0, 6)
  return bytes
}

test('derived files and metrics show nothing of single messages', async () => {
  const open = await site.open()
  const [alice, bob] = [await Trader.provisioned(open, 'alice'), await Trader.provisioned(open, 'bob')]
  const { login, request } = testCredential('alice', fromHex(open.venue.identity().venue, 32)!)
  await open.venue.setCredential(undefined, request)
  const terms = { amount: String(AMOUNT), price_limit: String(PRICE) }
  const buy = alice.place(alice.deposit('quote', 900_000_000n), terms)
  const sell = bob.place(bob.deposit('base', 2_000_000_000n), { ...terms, side: 'sell' })
  await open.chain.finalizeLeaves()
  await open.venue.place('alice', buy)
  await open.venue.place('bob', sell)
  await open.chain.tick(2)
  await open.engine.pump.idle()
  const { items } = await open.venue.events('alice', { after: 0, limit: 100 })
  expect(items.map(({ kind }) => kind)).toContain('fill.matched')
  const answers = { metrics: open.venue.metrics(), transparency: await open.venue.transparency() }
  await open.venue.drain()
  await open.close()

  const times = items.map(({ unix_ms }) => unix_ms)
  const named = marksOf([
    ...['alice', 'bob'].map(accountId),
    ...[buy, sell].flatMap((one) => [one.order_id, one.trading_key]),
    ...[login.api_key, login.api_secret, login.passphrase, request.secret_hash, request.passphrase_digest],
    ...[String(AMOUNT), String(PRICE), '"buy"', '"sell"', 'order.accepted', 'account.changed'],
    ...times.map(String),
  ])
  const marks = new Map([
    ...named,
    ...[AMOUNT, PRICE, ...times].map((value) => [`u64 ${value}`, Buffer.from(u64Le(value))] as const),
    ...times.map((value) => [`SQLite's ${value}`, bigEndian(value)] as const),
  ])
  const places = filesOf(site.dir)
  expect([...places.keys()]).toContain(join('history', 'history.sqlite'))
  for (const [name, answer] of Object.entries(answers)) places.set(name, Buffer.from(JSON.stringify(answer)))
  expect(findMarks(places, marks)).toEqual([])
  expect(missedPlants(places, marks)).toEqual([])

  const path = join(site.dir, 'history', 'history.sqlite')
  expect(shownByColumns(path, times)).toEqual([])
  // A column in clear is found, whichever it is.
  const planted = join(site.dir, 'planted.sqlite')
  for (const [table, column] of COLUMNS) {
    copyFileSync(path, planted)
    const db = new Database(planted)
    const value = column === 'hour' ? Math.floor(times[0]! / MS_PER_HOUR) : 1
    db.run(
      `UPDATE ${table} SET ${column} = ${value} WHERE ${column} = (SELECT ${column} FROM ${table} LIMIT 1)`,
    )
    db.close()
    expect(shownByColumns(planted, times)).toContain(`${table}.${column}`)
  }
})

/** Columns that would show in a byte or two the account, kind or time of a row. */
const COLUMNS: readonly (readonly [table: string, column: string])[] = [
  ['accounts', 'account'],
  ['blocks', 'account'],
  ...['account', 'open', 'status', 'symbol', 'era'].map((column) => ['orders', column] as const),
  ...['account', 'slot'].map((column) => ['fills', column] as const),
  ...['blocks', 'orders', 'fills'].map((table) => [table, 'hour'] as const),
]

/** SQLite stores small integers in a byte or two, which no search of the file would find. */
function shownByColumns(path: string, times: readonly number[]): string[] {
  const db = new Database(path, { readonly: true })
  const known = new Set(times.flatMap((ms) => [ms, Math.floor(ms / 1_000), Math.floor(ms / MS_PER_HOUR)]))
  const shown = COLUMNS.filter(([table, column]) => {
    const values = db
      .query<Record<string, number>, []>(`SELECT ${column} FROM ${table}`)
      .all()
      .flatMap(Object.values)
    expect(values.length).toBeGreaterThan(0)
    return values.some((value) => (column === 'hour' ? known.has(value) : value <= 0xffff))
  })
  db.close()
  return shown.map((one) => one.join('.'))
}
