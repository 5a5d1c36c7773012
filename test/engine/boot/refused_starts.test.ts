/** A build that decides otherwise than the journal does not start; a machine that clients reject opens no epoch. */

import { afterEach, beforeEach, expect, test } from 'bun:test'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { loadState } from '../../../engine/boot/load_state'
import { openJournal } from '../../../engine/journal/open_journal'
import { AUCTION_RECORD, ReplayDisagrees } from '../../../engine/sequencer/replayer'
import { utf8 } from '../../../protocol/bytes'
import type { ChainPoint } from '../../../protocol/units'
import { EmbeddedTrading } from '../../kit/venue/embedded_site'
import { TestSite, type TestVenue } from '../../kit/venue/open_test_venue'
import { refusalOf } from '../../kit/venue/refusal_of'
import { Trader } from '../../kit/venue/trader'
import { recordsOf, SIGNER } from '../journal/folder'

const site = new TestSite()
afterEach(() => site.remove())

async function auction(): Promise<TestVenue> {
  const open = await site.open()
  const alice = await Trader.provisioned(open, 'alice')
  const bob = await Trader.provisioned(open, 'bob')
  const buy = alice.place(alice.deposit('quote', 200_000_000n))
  const sell = bob.place(bob.deposit('base', 2_000_000_000n), { side: 'sell' })
  await open.chain.finalizeLeaves()
  await open.venue.place('alice', buy)
  await open.venue.place('bob', sell)
  await open.chain.tick(2)
  await open.engine.pump.idle()
  return open
}

test('the journal has the result of every auction behind the command that held it', async () => {
  const open = await auction()
  const results: string[] = []
  const { journal } = open.engine.loaded
  for await (const { type, body } of recordsOf(journal)) {
    if (type === AUCTION_RECORD) results.push(new TextDecoder().decode(body))
  }
  const traded = results.map((text) => JSON.parse(text)).filter(({ volume_lots }) => volume_lots > 0)
  expect(traded).toHaveLength(1)
  expect(traded[0]).toMatchObject({ symbol: 'SOL-USDC', volume_lots: 1000, price_ticks: 10_000 })
  expect(traded[0].fills).toHaveLength(2)
})

/** A copy of the journal in which every auction has a volume that this build does not compute. */
async function falsified(from: string): Promise<{ dir: string; end: ChainPoint }> {
  const dir = join(from, 'falsified')
  const { journal_key: key } = site.keys
  const source = await openJournal({ dir: join(from, 'journal'), key, segment_bytes: 2 * 1024 * 1024 })
  const copy = await openJournal({ dir: join(dir, 'journal'), key, segment_bytes: 2 * 1024 * 1024 })
  copy.signAs(SIGNER)
  for await (const { type, unix_ms, body } of recordsOf(source)) {
    const text = new TextDecoder().decode(body)
    const changed = text.replace('"volume_lots":1000', '"volume_lots":1001')
    await copy.append([{ type, unix_ms, body: type === AUCTION_RECORD ? utf8(changed) : body.slice() }])
  }
  const end = { ...copy.head() }
  await source.close()
  await copy.close()
  return { dir, end }
}

test('a replay that reaches another result refuses to start and names the record', async () => {
  const open = await auction()
  await open.close()
  const { dir, end } = await falsified(open.config.data_dir)
  const config = { ...open.config, data_dir: dir }
  const ports = { keys: site.keys, chain: open.chain }
  // The chain shows this journal's end: one that it contradicts is not replayed.
  const vault = { ...(await open.chain.readConfig()), journal_seq: end.seq, journal_head: end.head }
  const loading = loadState(config, ports, vault, { segment_bytes: 2 * 1024 * 1024 })
  const error = await loading.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  expect(error).toBeInstanceOf(ReplayDisagrees)
  expect((error as ReplayDisagrees).message).toContain('an auction ends otherwise')
})

test('public facts that are lost come back whole from the journal', async () => {
  let open = await auction()
  await open.chain.settleNext()
  const before = await open.venue.settlementBatch(1)
  expect(before).toMatchObject({ batch: 1, stage: 'finalized' })
  await open.close()
  rmSync(join(site.dir, 'facts'), { recursive: true })
  open = await site.open()
  expect(await open.venue.settlementBatch(1)).toEqual(before)
})

let world: EmbeddedTrading
beforeEach(async () => {
  world = new EmbeddedTrading()
  await world.open()
}, 120_000)
afterEach(() => world.site.remove())

test('reasons of the self-check bar the epoch and fence no instance; without them the next boot opens it', async () => {
  const { site, alice } = world
  const { epoch, boot_nonce } = await site.port.readConfig()
  await site.venue.drain()
  await site.venue.close()
  const self_check_reasons = [
    'the machine is under debug: the host reads its memory',
    'another manifest was measured',
  ]
  const rejected = await site.openVenue(site.dir, { self_check_reasons })
  expect(rejected.status()).toMatchObject({ ready: false, matching: 'stopped' })
  const [reason, ...others] = rejected.status().reasons
  expect(others.join()).not.toContain('disk_full')
  for (const one of ['opens no epoch', ...self_check_reasons]) expect(reason).toContain(one)
  const refused = await refusalOf(rejected.cancelAll('alice', [alice.cancelAll()]))
  expect(refused.code).toBe('matching_unavailable')
  const unchanged = await site.port.readConfig()
  expect([unchanged.epoch, unchanged.boot_nonce]).toEqual([epoch, boot_nonce])
  await rejected.drain()
  await rejected.close()
  const accepted = await site.openVenue(site.dir, { self_check_reasons: [] })
  expect(accepted.status().matching).toBe('running')
  expect((await site.port.readConfig()).epoch).toBe(epoch + 1)
})
