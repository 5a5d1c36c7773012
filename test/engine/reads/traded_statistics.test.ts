/** A day of trading with twenty accounts: what is published equals what their own fills add up to, also after a restart. */

import { afterAll, expect, test } from 'bun:test'
import { verifyStatistics } from '../../../client/verify/verify_statistics'
import { decodeBase58 } from '../../../protocol/base58'
import { STATEMENT_BODY } from '../../../protocol/bodies/statements'
import { fromHex } from '../../../protocol/bytes'
import { verifySignature } from '../../../protocol/ed25519'
import type { Fill } from '../../../protocol/wire/trading'
import { TestSite, type TestVenue } from '../../kit/venue/open_test_venue'
import { Trader } from '../../kit/venue/trader'

const SYMBOL = 'SOL-USDC'
const HOUR = 3_600_000
/** A whole hour of the chain's clock. */
const START = 20_000 * 24 * HOUR
const site = new TestSite()
afterAll(() => site.remove())

async function fillsOf(open: TestVenue, traders: readonly Trader[]): Promise<Fill[]> {
  const lists = traders.map(({ account_id }) => open.venue.fills(account_id, { after: 0, limit: 500 }))
  return (await Promise.all(lists)).flatMap(({ items }) => items)
}
const page = { after: 0, limit: 500, period: 'hour' } as const
const sum = (values: readonly string[]) => String(values.reduce((total, one) => total + BigInt(one), 0n))

test('rows equal a recount of every account’s fills, are certified, and survive a restart', async () => {
  let now = START + 60_000
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
  now = START + 2 * HOUR + 60_000
  await open.chain.tick(6)
  const told = open.venue.statistics(SYMBOL, page)
  const ordered = fills.toSorted((a, b) => a.batch - b.batch)
  expect(told.items).toHaveLength(1)
  expect(told.items[0]).toMatchObject({
    start_unix_s: START / 1_000,
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
  expect(reference).toMatchObject({ until_unix_s: START / 1_000 + 3_600 })
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
