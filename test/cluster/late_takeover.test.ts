/** A node takes over, or finds its log lost, while the provider that it asks is behind the epoch which its journal has. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { Etcd } from '../../engine/cluster/etcd'
import { openVenue } from '../../engine/index'
import type { VaultConfig } from '../../engine/ports'
import { ETCD, EtcdCluster } from '../../sandbox/cluster/etcd_cluster'
import { failure } from '../engine/journal/folder'
import { EmbeddedSite } from '../kit/venue/embedded_site'
import { jsonVenue } from '../kit/venue/json_venue'

const LIMIT_MS = 120_000
let etcd: EtcdCluster
let site: EmbeddedSite
/** At confirmed, of the first epoch of node 2. */
let before: VaultConfig

const settings = () => ({ cluster: { endpoints: etcd.endpoints, tls: etcd.tls } })
const openOn = (node: number) => site.openVenue(join(site.dir, `node-${node}`), settings())

/** Node 2, whose next readings, as many as `lates()`, show the vault as it was. */
async function openLate(lates: () => number) {
  const parts = await site.parts(join(site.dir, 'node-2'), settings())
  const { chain } = parts.ports
  const readNow = chain.readConfig.bind(chain)
  chain.readConfig = async (level) => (lates() > 0 ? before : readNow(level))
  return { opening: openVenue(parts), parts }
}

describe.skipIf(ETCD === undefined)('a takeover', () => {
  beforeAll(async () => {
    etcd = await EtcdCluster.start()
  }, LIMIT_MS)
  afterAll(() => etcd?.stop(), LIMIT_MS)
  beforeEach(async () => {
    site = new EmbeddedSite()
    await site.openChain()
    await (await openOn(1)).close()
    const second = await openOn(2)
    before = await site.port.readConfig('confirmed')
    await second.close()
  }, LIMIT_MS)
  afterEach(() => site.remove(), LIMIT_MS)

  test(
    'waits for a reading of the chain that has the epoch of its journal',
    async () => {
      const third = await openOn(1)
      const { epoch } = third.identity()
      let lates = 0
      const { opening } = await openLate(() => lates--)
      // It follows by then, with a newer reading.
      await Bun.sleep(2_000)
      lates = 1
      await third.close()
      site.venue = jsonVenue(await opening)
      expect(lates).toBeLessThan(1)
      expect(before.epoch).toBeLessThan(epoch)
      expect(site.venue.identity().epoch).toBe(epoch + 1)
      expect(site.venue.status()).toMatchObject({ ready: true, matching: 'running' })
    },
    LIMIT_MS,
  )

  test(
    'of a lost log names the end of the journal, which one late reading does not contradict',
    async () => {
      await (await openOn(1)).close()
      const third = await openOn(2)
      const range = `tacit/${third.identity().venue}/`
      await third.close()
      await new Etcd(settings().cluster).txn([], [{ remove: range, to: `${range}~` }])
      // The first reading loads the state.
      let reads = 0
      const { opening, parts } = await openLate(() => (++reads === 2 ? 1 : 0))
      expect(String(await failure(opening))).toMatch(/the log ends at seq 0, .* head [0-9a-f]{64}$/)
      expect(reads).toBe(3)
      await Promise.all([parts.ports.chain.close(), parts.ports.hash.close()])
    },
    LIMIT_MS,
  )
})
