/**
 * Appends of several nodes to the replicated log under random faults; and the same with planted bugs, which must be found.
 * TACIT_LOG_ROUNDS and TACIT_LOG_SEED make a longer campaign, or the same again.
 */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { ETCD, EtcdCluster } from '../../sandbox/cluster/etcd_cluster'
import { FAULTS, LogCampaign, type Planted } from '../kit/etcd/log_campaign'
import { Random } from '../kit/random'

const ROUNDS = Number(process.env['TACIT_LOG_ROUNDS'] ?? 4)
const SEED = Number(process.env['TACIT_LOG_SEED'] ?? Date.now() % 2 ** 31)
const LIMIT_MS = 120_000
let cluster: EtcdCluster

const numbersOf = (seed: number) => {
  const random = new Random(seed)
  return (below: number) => random.below(below)
}

describe.skipIf(ETCD === undefined)('a campaign on three members', () => {
  beforeAll(async () => {
    cluster = await EtcdCluster.start()
  }, LIMIT_MS)
  afterAll(() => cluster?.stop(), LIMIT_MS)

  test(
    'nothing that was acknowledged is lost, doubled or out of order, and no deposed node acknowledges',
    async () => {
      const campaign = new LogCampaign(cluster, numbersOf(SEED), 1)
      const met = new Map<string, number>(FAULTS.map((fault) => [fault, 0]))
      for (let round = 1; round <= ROUNDS; round++) {
        try {
          const fault = await campaign.round()
          met.set(fault, met.get(fault)! + 1)
        } catch (cause) {
          throw new Error(`round ${round} of seed ${SEED}`, { cause })
        }
      }
      const faults = [...met].map(([fault, times]) => `${fault} ${times}`).join(', ')
      console.log(
        `seed ${SEED}: ${ROUNDS} rounds, ${campaign.count} acknowledged, 0 lost or doubled; ${faults}`,
      )
      expect(campaign.count).toBeGreaterThanOrEqual(3 * ROUNDS)
    },
    LIMIT_MS + ROUNDS * 10_000,
  )

  const BUGS: [Planted, (typeof FAULTS)[number]][] = [
    ['no term compared', 'usurper'],
    ['acknowledged before the quorum', 'leader killed'],
    ['head read after a lost reply', 'late request'],
  ]
  for (const [i, [planted, fault]] of BUGS.entries()) {
    test(
      `the campaign finds a planted bug: ${planted}`,
      async () => {
        const campaign = new LogCampaign(cluster, numbersOf(SEED + 1), 2 + i, planted)
        let found: unknown
        for (let round = 0; round < 12 && found === undefined; round++)
          found = await campaign.round(fault).then(
            () => undefined,
            (error) => error,
          )
        console.log(`${planted}: ${found}`)
        expect(found).toBeInstanceOf(Error)
        // The same faults without the bug: the rules hold.
        const sound = new LogCampaign(cluster, numbersOf(SEED + 1), 12 + i)
        expect(await sound.round(fault)).toBe(fault)
      },
      LIMIT_MS,
    )
  }
})
