/** Some rounds of `bun run faults cluster`, on processes; the command runs more, and a seed again. */
import { describe, expect, test } from 'bun:test'
import { ETCD, EtcdCluster } from '../../sandbox/cluster/etcd_cluster'
import { Campaign } from '../faults/cluster/campaign'

const FAULTS = [
  'leading node cut off',
  'appends delayed',
  'leading node paused',
  'leading node and member killed',
]
const SEED = Date.now() % 1_000_000_000
const LIMIT_MS = 300_000

describe.skipIf(ETCD === undefined)('a campaign of faults', () => {
  test(
    'nothing acknowledged is lost or doubled, streams have no gap, states are equal, money is what it was',
    async () => {
      const etcd = await EtcdCluster.start()
      const campaign = new Campaign(etcd, SEED, false, [], FAULTS)
      try {
        let before = 0
        for (let round = 1; round <= FAULTS.length; round++) {
          const fault = await campaign.round()
          console.log(`round ${round} of seed ${SEED}: ${fault}`)
          expect(campaign.acknowledged).toBeGreaterThanOrEqual(before + 6)
          before = campaign.acknowledged
        }
      } finally {
        await campaign.close()
        await etcd.stop()
      }
    },
    LIMIT_MS,
  )
})
