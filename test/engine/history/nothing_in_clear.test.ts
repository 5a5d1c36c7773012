/** After a day of trading, no file of the venue shows an account, an id, a size, a side or the time of a single message. */
import { Database } from 'bun:sqlite'
import { afterAll, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fromHex, u64Le, utf8 } from '../../../protocol/bytes'
import { TestSite } from '../../kit/venue/open_test_venue'
import { accountId, testCredential } from '../../kit/venue/test_login'
import { Trader } from '../../kit/venue/trader'

const MS_PER_HOUR = 3_600_000
const AMOUNT = 1_357_000_000n
const PRICE = 99_870_000n
const site = new TestSite()
afterAll(() => site.remove())

/** How SQLite stores an integer of this size. */
function bigEndian(value: number): Uint8Array {
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
  const metrics = JSON.stringify(open.venue.metrics())
  await open.venue.drain()
  await open.close()

  const texts = [
    ...['alice', 'bob'].flatMap((name) => [name, accountId(name)]),
    ...[buy, sell].flatMap((one) => [one.order_id, one.trading_key]),
    ...[login.api_key, login.api_secret, login.passphrase, request.secret_hash, request.passphrase_digest],
    ...[String(AMOUNT), String(PRICE), '"buy"', '"sell"', 'order.accepted', 'account.changed'],
    ...items.map(({ unix_ms }) => String(unix_ms)),
  ]
  const hex = texts
    .filter((text) => /^[0-9a-f]{32,}$/.test(text))
    .map((text) => fromHex(text, text.length / 2)!)
  const numbers = [
    u64Le(AMOUNT),
    u64Le(PRICE),
    ...items.flatMap(({ unix_ms }) => [u64Le(unix_ms), bigEndian(unix_ms)]),
  ]
  const needles = [...texts.map(utf8), ...hex, ...numbers].map((needle) => Buffer.from(needle))
  const files = readdirSync(site.dir, { recursive: true, withFileTypes: true }).filter((one) => one.isFile())
  expect(files.map(({ name }) => name)).toContain('history.sqlite')
  for (const file of files) {
    const content = readFileSync(join(file.parentPath, file.name))
    for (const needle of needles)
      if (content.includes(needle)) throw new Error(`${file.name} holds ${needle}`)
  }
  for (const text of texts.filter((one) => one.length > 5)) expect(metrics).not.toContain(text)
  checkColumns(items.map(({ unix_ms }) => unix_ms))
})

/** SQLite stores small integers in a byte or two, which no search of the file would find. */
function checkColumns(times: readonly number[]): void {
  const db = new Database(join(site.dir, 'history', 'history.sqlite'), { readonly: true })
  const columns = (table: string, ...names: string[]) =>
    db
      .query<Record<string, number>, []>(`SELECT ${names.join(', ')} FROM ${table}`)
      .all()
      .flatMap(Object.values)
  const hidden = [
    ...columns('accounts', 'account'),
    ...columns('blocks', 'account'),
    ...columns('orders', 'account', 'open', 'status', 'symbol'),
    ...columns('fills', 'account'),
  ]
  expect(hidden.length).toBeGreaterThan(12)
  for (const value of hidden) expect(value).toBeGreaterThan(0xffff)
  const hours = ['blocks', 'orders', 'fills'].flatMap((table) => columns(table, 'hour'))
  const known = times.flatMap((ms) => [ms, Math.floor(ms / 1_000), Math.floor(ms / MS_PER_HOUR)])
  for (const hour of hours) expect(known).not.toContain(hour)
  db.close()
}
