/** Snapshots of a running venue: equal to its state, beside its intake, and the end of journal nobody needs. */
import { afterEach, expect, test } from 'bun:test'
import { journaledHash } from '../../../engine/boot/check_chain'
import { loadState } from '../../../engine/boot/load_state'
import { encodeState } from '../../../engine/machine/codec/encode_state'
import { concatBytes, toHex } from '../../../protocol/bytes'
import { admission } from '../../kit/venue/machine_world'
import { TestSite, type TestVenue } from '../../kit/venue/open_test_venue'
import { Trader } from '../../kit/venue/trader'

let site = new TestSite()
afterEach(async () => {
  await site.remove()
  site = new TestSite()
})

/** The newest snapshot that the journal names. */
async function newest({ engine: { loaded } }: TestVenue) {
  return (await loaded.snapshots.newestValid((point) => journaledHash(loaded.journal, point))).snapshot
}

async function traded(open: TestVenue, orders: number): Promise<Trader> {
  const trader = await Trader.provisioned(open, 'alice', { orders_live_max: 100_000 })
  const deposit = trader.deposit('quote', 200_000_000n)
  await open.chain.finalizeLeaves()
  for (let at = 0; at < orders; at++) {
    const { order_id } = await open.venue.place('alice', trader.place(deposit))
    await open.venue.cancel('alice', order_id, trader.cancel(order_id))
  }
  await open.venue.place('alice', trader.place(deposit))
  await open.engine.sequencer.durable()
  return trader
}

test('the snapshot of a running venue is its state, byte for byte', async () => {
  const open = await site.open()
  await traded(open, 5)
  const expected = toHex(encodeState(open.engine.state))
  const { seq } = open.engine.loaded.journal.head()
  await open.engine.snapshotting.now()
  const snapshot = await newest(open)
  expect(snapshot?.seq).toBe(seq)
  expect(
    toHex(concatBytes(...Array.from(snapshot!.blocks(), (block) => new Uint8Array(block)))) === expected,
  ).toBe(true)
  expect(open.engine.snapshotting).toMatchObject({ newest: { seq }, failures: 0 })
})

test('a second snapshot is made of the first and the records since', async () => {
  const open = await site.open()
  const trader = await traded(open, 3)
  await open.engine.snapshotting.now()
  await open.chain.tick(4)
  await open.venue.cancelAll('alice', [trader.cancelAll()])
  await open.engine.sequencer.durable()
  const expected = toHex(encodeState(open.engine.state))
  await open.engine.snapshotting.now()
  const { snapshots } = open.engine.loaded
  expect(snapshots.seqs()).toHaveLength(2)
  const snapshot = await newest(open)
  expect(
    toHex(concatBytes(...Array.from(snapshot!.blocks(), (block) => new Uint8Array(block)))) === expected,
  ).toBe(true)
})

test('commands are answered while a snapshot is made', async () => {
  const open = await site.open()
  const trader = await traded(open, 2)
  const deposit = trader.deposit('quote', 200_000_000n)
  await open.chain.finalizeLeaves()
  const before = open.engine.sequencer.seq_durable
  const made = open.engine.snapshotting.now()
  await open.venue.place('alice', trader.place(deposit))
  expect(open.engine.snapshotting.newest).toBeUndefined()
  expect(open.engine.sequencer.seq_durable).toBeGreaterThan(before)
  await made
  expect(open.engine.snapshotting.newest?.seq).toBe(before)
})

test('journal behind both snapshots and the retention goes, and the venue starts from what is left', async () => {
  const first = await site.open({ retention_days: 1e-9 })
  const trader = await traded(first, 2)
  const { journal } = first.engine.loaded
  const deposit = trader.deposit('quote', 200_000_000n)
  await first.chain.finalizeLeaves()
  // Each round begins a segment, as a start does; the oldest may go once two snapshots lie behind it.
  for (let round = 0; round < 2; round++) {
    await fillSegment(first, trader, deposit)
    await first.engine.snapshotting.now()
  }
  expect(first.engine.snapshotting.failures).toBe(0)
  expect(journal.firstSeq()).toBeGreaterThan(1)
  expect(journal.firstSeq()).toBeLessThanOrEqual(first.engine.loaded.snapshots.seqs()[1]! + 1)
  await first.engine.anchoring.now()
  const expected = toHex(encodeState(first.engine.state))
  await first.close()

  const loaded = await loadState(
    first.config,
    { keys: site.keys, chain: first.chain },
    await first.chain.readConfig(),
    {
      segment_bytes: 2 * 1024 * 1024,
    },
  )
  expect(toHex(encodeState(loaded.state)) === expected).toBe(true)
  await loaded.journal.close()
  await loaded.history.close()
  loaded.facts.close()
}, 20_000)

test('journal within the retention stays', async () => {
  const open = await site.open()
  const trader = await traded(open, 2)
  const deposit = trader.deposit('quote', 200_000_000n)
  await open.chain.finalizeLeaves()
  for (let round = 0; round < 2; round++) {
    await fillSegment(open, trader, deposit)
    await open.engine.snapshotting.now()
  }
  expect(open.engine.loaded.journal.firstSeq()).toBe(1)
}, 20_000)

/** Records of an account with a long name are the cheapest way to more than one segment of two MiB. */
async function fillSegment(open: TestVenue, trader: Trader, deposit: ReturnType<Trader['deposit']>) {
  const name = 'n'.repeat(500_000)
  for (let at = 0; at < 5; at++) {
    const version = (open.engine.state.accounts.get(name)?.version ?? 0) + 1
    await open.engine.sequencer.submit(admission(name, { version }))
  }
  const { order_id } = await open.venue.place('alice', trader.place(deposit))
  await open.venue.cancel('alice', order_id, trader.cancel(order_id))
  await open.engine.sequencer.durable()
}
