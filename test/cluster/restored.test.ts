/** A cluster that lost its disks goes on after a restore from the chain, on one log, through further takeovers. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { Etcd } from '../../engine/cluster/etcd'
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

const restoring = () => {
  return { cluster: { endpoints: etcd.endpoints, tls: etcd.tls }, restore_from_chain: true }
}
const dirOf = (node: number) => join(trading.site.dir, `node-${node}`)
const openOn = (node: number) => trading.site.openVenue(dirOf(node), restoring())
const follow = (node: number, read?: Reading) => follower(trading.site, dirOf(node), restoring(), read)

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await soon()
}

/** As by the owner of etcd: every key of the venue. */
async function emptyLog(venue: JsonVenue): Promise<void> {
  const prefix = `tacit/${venue.identity().venue}/`
  const remove = { remove: prefix, to: `${prefix}~` }
  await new Etcd({ endpoints: etcd.endpoints, tls: etcd.tls }).txn([], [remove])
}

/** Settles a batch on node 1, which then ends, and announces a restore; returns a note that was not spent, and the vault then. */
async function settled() {
  const first = await openOn(1)
  for (const account_id of ['alice', 'bob']) await trading.site.issue(account_id)
  trading.alice = trading.trader('alice')
  trading.bob = trading.trader('bob')
  await trading.cross(first)
  await trading.until('alice', ({ kind }) => kind === 'fill.finalized')
  const kept = await trading.deposited(trading.alice, USDC, 300_000_000n)
  await first.drain()
  const before = await trading.site.port.readConfig()
  await first.close()
  trading.site.chain.warpTime(await announceRestore(trading.site.chain))
  return { first, kept, before }
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
      const second = await openOn(2)
      expect(second.identity()).toMatchObject({ generation: 1, epoch: 2 })
      const third = await follow(3)
      await until(() => third.loaded.state.settlement.last_hashed === 1)
      await third.stop()
      await second.close()

      const taken = await openOn(3)
      expect(taken.identity()).toMatchObject({ generation: 1, epoch: 3 })
      const { seed, key, trading_key } = trading.alice
      for (const account_id of ['alice', 'bob']) await trading.site.issue(account_id)
      const alice = Object.assign(trading.trader('alice'), { seed, key, trading_key })
      while (!(await taken.treeInclusion(kept.opening.leaf_index!)).usable) await soon()
      const order = alice.place(kept, { expiry_slot: taken.time().slot + 5_000 })
      await taken.place('alice', order)
      await taken.close()

      const again = await openOn(2)
      expect(again.identity()).toMatchObject({ generation: 1, epoch: 4 })
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
      const second = await openOn(2)
      const early = await follow(3, () => before)
      expect(((await failure(early.leading)) as Error).name).toBe('VenueRestored')
      expect([early.loaded.state.epoch, early.loaded.state.settlement.last_hashed]).toEqual([0, 0])
      await early.stop()
      const third = await follow(3)
      await until(() => third.loaded.state.settlement.last_hashed === 1)
      await third.stop()
      await second.close()
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
