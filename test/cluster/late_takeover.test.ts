/** A node takes over while the provider that it asks is behind the epoch which its journal has. */
import { describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { openVenue } from '../../engine/index'
import { ETCD, EtcdCluster } from '../../sandbox/cluster/etcd_cluster'
import { EmbeddedSite } from '../kit/venue/embedded_site'
import { jsonVenue } from '../kit/venue/json_venue'

describe.skipIf(ETCD === undefined)('a takeover', () => {
  test('waits for a reading of the chain that has the epoch of its journal', async () => {
    const etcd = await EtcdCluster.start()
    const site = new EmbeddedSite()
    try {
      await site.openChain()
      const cluster = { cluster: { endpoints: etcd.endpoints, tls: etcd.tls } }
      const openOn = (node: number) => site.openVenue(join(site.dir, `node-${node}`), cluster)
      await (await openOn(1)).close()
      const second = await openOn(2)
      const before = await site.port.readConfig('confirmed')
      await second.close()
      const third = await openOn(1)
      const { epoch } = third.identity()
      const parts = await site.parts(join(site.dir, 'node-2'), cluster)
      const { chain } = parts.ports
      const readNow = chain.readConfig.bind(chain)
      let lates = 0
      chain.readConfig = async (level) => (lates-- > 0 ? before : readNow(level))
      const opening = openVenue(parts)
      // It follows by then, with a newer reading.
      await Bun.sleep(2_000)
      lates = 1
      await third.close()
      site.venue = jsonVenue(await opening)
      expect(lates).toBeLessThan(1)
      expect(before.epoch).toBeLessThan(epoch)
      expect(site.venue.identity().epoch).toBe(epoch + 1)
      expect(site.venue.status()).toMatchObject({ ready: true, matching: 'running' })
    } finally {
      await site.remove()
      await etcd.stop()
    }
  }, 120_000)
})
