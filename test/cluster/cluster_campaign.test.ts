/** Some rounds of `bun run faults cluster`, on processes; the command runs more, and a seed again. */
import { describe, expect, test } from 'bun:test'
import { ETCD, EtcdCluster } from '../../sandbox/cluster/etcd_cluster'
import { FAULTS as CAMPAIGN_FAULTS, Campaign } from '../faults/cluster/campaign'
import { findsPlanted, PLANTS, withPlanted } from '../faults/cluster/planted'

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
    'nothing acknowledged is lost or doubled, streams have no gap, states are equal, money is conserved',
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

  test(
    'finds a front that answers without a right',
    async () => {
      const args = ['--rounds', '2', '--seed', `${SEED}`, '--fault', PLANTS['stale-front-answers']!.fault]
      expect(await findsPlanted('stale-front-answers', args)).toBe(true)
    },
    LIMIT_MS,
  )
})

test.each(Object.entries(PLANTS))('the bug %s has its place in the product', (_, plant) => {
  expect(withPlanted(plant)).toContain(plant.replacement)
  expect(CAMPAIGN_FAULTS.map(({ name }) => name)).toContain(plant.fault)
})
