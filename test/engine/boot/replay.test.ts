/** A build that decides otherwise than the journal says must not start. */
import { afterEach, expect, test } from 'bun:test'
import { loadState } from '../../../engine/boot/load_state'
import { AUCTION_RECORD } from '../../../engine/sequencer/records'
import { ReplayDisagrees } from '../../../engine/sequencer/replayer'
import { TestSite, type TestVenue, testKeys } from '../../kit/venue/open_test_venue'
import { Trader } from '../../kit/venue/trader'

let site = new TestSite()
afterEach(async () => {
  await site.remove()
  site = new TestSite()
})

async function auction(): Promise<TestVenue> {
  const open = await site.open()
  const alice = await Trader.provisioned(open, 'alice')
  const bob = await Trader.provisioned(open, 'bob')
  const buy = alice.place(alice.deposit('quote', 200_000_000n))
  const sell = bob.place(bob.deposit('base', 2_000_000_000n), { side: 'sell' })
  await open.chain.finalizeLeaves()
  await open.venue.place('alice', buy)
  await open.venue.place('bob', sell)
  open.chain.tick(2)
  await open.engine.pump.idle()
  return open
}

test('the result of every auction stands in the journal behind the command that held it', async () => {
  const open = await auction()
  const results: string[] = []
  const { journal } = open.engine.loaded
  for await (const { type, body } of journal.read(1)) {
    if (type === AUCTION_RECORD) results.push(new TextDecoder().decode(body))
  }
  const traded = results.map((text) => JSON.parse(text)).filter(({ volume_lots }) => volume_lots > 0)
  expect(traded).toHaveLength(1)
  expect(traded[0]).toMatchObject({ symbol: 'SOL-USDC', volume_lots: 1000, price_ticks: 10_000 })
  expect(traded[0].fills).toHaveLength(2)
})

test('a replay that reaches another result refuses to start and names the record', async () => {
  const open = await auction()
  await open.close()
  // Another tie-break key stands for a build that computes auctions differently: its seeds differ.
  const keys = { ...site.keys, tie_break_key: testKeys('another').tie_break_key }
  const loading = loadState(open.config, { keys, chain: open.chain }, await open.chain.readConfig(), {
    segment_bytes: 2 * 1024 * 1024,
  })
  const error = await loading.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  expect(error).toBeInstanceOf(ReplayDisagrees)
  expect((error as ReplayDisagrees).message).toContain('an auction ends otherwise')
})
