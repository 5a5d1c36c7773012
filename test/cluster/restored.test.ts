/** A cluster that lost its disks goes on after a restore from the chain, on one log, through further takeovers. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { Etcd } from '../../engine/cluster/etcd'
import { openVenue } from '../../engine/index'
import { LIMITS } from '../../engine/limits'
import { ETCD, EtcdCluster } from '../../sandbox/cluster/etcd_cluster'
import { USDC } from '../../sandbox/environment'
import { failure } from '../engine/journal/folder'
import { follower } from '../kit/etcd/follower'
import { announceRestore } from '../kit/vault/open_vault'
import { EmbeddedTrading, soon } from '../kit/venue/embedded_site'
import type { JsonVenue } from '../kit/venue/json_venue'

const LIMIT_MS = 180_000
type Reading = Parameters<typeof follower>[3]
let etcd: EtcdCluster
let trading: EmbeddedTrading

const onLog = () => {
  return { cluster: { endpoints: etcd.endpoints, tls: etcd.tls } }
}
const dirOf = (node: number) => join(trading.site.dir, `node-${node}`)
const openOn = (node: number) => trading.site.openVenue(dirOf(node), onLog())
const follow = (node: number, read?: Reading) => follower(trading.site, dirOf(node), onLog(), read)

/** The node that restores ends then, and serves from its next start on, by which its links and callers know the generation. */
async function restoredOn(node: number): Promise<JsonVenue> {
  expect(((await failure(openOn(node))) as Error).name).toBe('VenueRestored')
  return openOn(node)
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await soon()
}

/** Node 3 follows to the batch that was settled before the restore. */
async function follows(): Promise<void> {
  const third = await follow(3)
  await until(() => third.loaded.state.settlement.last_hashed === 1)
  await third.stop()
}

const etcdNow = () => new Etcd({ endpoints: etcd.endpoints, tls: etcd.tls })
const rangeOf = (venue: JsonVenue) => {
  const range = `tacit/${venue.identity().venue}/`
  return { range, to: `${range}~` }
}
type KeyValue = { key: string; value: Uint8Array }
async function logOf(venue: JsonVenue): Promise<KeyValue[]> {
  const all: KeyValue[] = []
  for (let { range, to } = rangeOf(venue); ; range = `${all.at(-1)!.key}\0`) {
    const [page] = (await etcdNow().txn([], [{ range, to, most: 50 }])).found
    all.push(...page!)
    if (page!.length < 50) return all
  }
}
/** As by the owner of etcd: every key of the venue. */
async function emptyLog(venue: JsonVenue): Promise<void> {
  const { range: remove, to } = rangeOf(venue)
  await etcdNow().txn([], [{ remove, to }])
}

/** Settles a batch on node 1, which ends, and announces a restore; returns a note that was not spent, vault and log as then. */
async function settled() {
  const first = await openOn(1)
  await trading.admit()
  await trading.cross(first)
  await trading.until('alice', ({ kind }) => kind === 'fill.finalized')
  const kept = await trading.deposited(trading.alice, USDC, 300_000_000n)
  await first.drain()
  const before = await trading.site.port.readConfig()
  const old = await logOf(first)
  await first.close()
  trading.site.chain.warpTime(await announceRestore(trading.site.chain))
  return { first, kept, before, old }
}

describe.skipIf(ETCD === undefined)('a restored cluster', () => {
  beforeAll(async () => {
    etcd = await EtcdCluster.start()
  }, LIMIT_MS)
  afterAll(() => etcd?.stop(), LIMIT_MS)
  beforeEach(async () => {
    trading = new EmbeddedTrading()
    await trading.site.openChain()
  }, LIMIT_MS)
  afterEach(() => trading.site.remove(), LIMIT_MS)

  test(
    'goes on behind the log of its restore: a node follows, takes over, and starts again',
    async () => {
      const { first, kept } = await settled()
      await emptyLog(first)
      const second = await restoredOn(2)
      expect(second.identity()).toMatchObject({ generation: 1, epoch: 3 })
      await follows()
      await second.close()

      const taken = await openOn(3)
      expect(taken.identity()).toMatchObject({ generation: 1, epoch: 4 })
      const { seed, key, trading_key } = trading.alice
      for (const account_id of ['alice', 'bob']) await trading.site.issue(account_id)
      const alice = Object.assign(trading.trader('alice'), { seed, key, trading_key })
      while (!(await taken.treeInclusion(kept.opening.leaf_index!)).usable) await soon()
      const order = alice.place(kept, { expiry_slot: taken.time().slot + 5_000 })
      await taken.place('alice', order)
      await taken.close()

      const again = await openOn(2)
      expect(again.identity()).toMatchObject({ generation: 1, epoch: 5 })
      expect(await again.order('alice', order.order_id)).toMatchObject({ status: 'accepted' })
      await again.close()
      expect(trading.site.fatal).toEqual([])
    },
    LIMIT_MS,
  )

  test(
    'a node that read the chain before the restore takes nothing of the boot that restored, and follows it from its next start on',
    async () => {
      const { first, before } = await settled()
      await emptyLog(first)
      const second = await restoredOn(2)
      const early = await follow(3, () => before)
      expect(((await failure(early.leading)) as Error).name).toBe('VenueRestored')
      expect([early.loaded.state.epoch, early.loaded.state.settlement.last_hashed]).toEqual([0, 0])
      await early.stop()
      await follows()
      await second.close()
    },
    LIMIT_MS,
  )

  test(
    'a node that read the chain before the restore ends, too, where it takes over behind the opening alone',
    async () => {
      const { first, before } = await settled()
      await emptyLog(first)
      const { term_opening_ms } = LIMITS
      const landed = Promise.withResolvers<void>()
      const { config, ports } = await trading.site.parts(dirOf(2), onLog())
      const openEpoch = ports.chain.openEpoch.bind(ports.chain)
      ports.chain.openEpoch = async (...args) => {
        Object.assign(LIMITS, { term_opening_ms })
        await openEpoch(...args)
        landed.resolve()
        return new Promise(() => undefined)
      }
      // The other node need not wait for its end.
      Object.assign(LIMITS, { term_opening_ms: 1_500 })
      const ended = openVenue({ config, ports }).catch((error: Error) => error)
      await landed.promise
      const early = await follow(3, () => before)
      expect(((await failure(early.leading)) as Error).name).toBe('VenueRestored')
      await early.stop()
      const serving = await openOn(3)
      expect(serving.identity()).toMatchObject({ generation: 1, epoch: 3 })
      await serving.close()
      void ended
    },
    LIMIT_MS,
  )

  test(
    'a fresh node takes nothing of the log of before the restore, and follows once the right one is back',
    async () => {
      const { first, old } = await settled()
      await emptyLog(first)
      const second = await restoredOn(2)
      const right = await logOf(first)
      await second.close()
      await emptyLog(first)
      for (const { key, value } of old) await etcdNow().txn([], [{ put: key, value }])
      const fresh = await follow(3)
      expect(((await failure(fresh.leading)) as Error).message).toContain('before it was restored')
      expect(fresh.loaded.journal.head().seq).toBe(0)
      await fresh.stop()
      await emptyLog(first)
      for (const { key, value } of right) await etcdNow().txn([], [{ put: key, value }])
      await follows()
    },
    LIMIT_MS,
  )

  test(
    'an announced restore restores nothing where the log still has the journal',
    async () => {
      await settled()
      const second = await openOn(2)
      expect(second.identity()).toMatchObject({ generation: 0, epoch: 2 })
      trading.site.venue = second
      expect((await trading.events('alice')).some(({ kind }) => kind === 'fill.finalized')).toBe(true)
      await second.close()
    },
    LIMIT_MS,
  )
})
