/** After a day of trading, no file of the venue shows an account, an id, a size, a side or the time of a single message. */
import { Database } from 'bun:sqlite'
import { afterAll, expect, test } from 'bun:test'
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { fromHex, u64Le } from '../../../protocol/bytes'
import { filesOf, findMarks, marksOf, missedPlants } from '../../kit/venue/marks'
import { TestSite } from '../../kit/venue/open_test_venue'
import { accountId, testCredential } from '../../kit/venue/test_login'
import { Trader } from '../../kit/venue/trader'

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

/** Columns that would say in a byte or two whose a row is, what it is, or when it came. */
const COLUMNS: readonly (readonly [table: string, column: string])[] = [
  ['accounts', 'account'],
  ['blocks', 'account'],
  ...['account', 'open', 'status', 'symbol'].map((column) => ['orders', column] as const),
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
