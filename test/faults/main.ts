/** `bun run faults cluster`: the fault campaign on a cluster of processes, with a table of faults and of takeover times. */
import { Options, runCommand, UsageFault } from '../../client/cli/command'
import { ETCD, EtcdCluster } from '../../sandbox/cluster/etcd_cluster'
import { Disk, isMountable } from '../kit/small_volume'
import { Campaign, FAULTS } from './cluster/campaign'
import { PLANTS, runPlanted } from './cluster/plant'
import { tableOf } from './cluster/table'

const USAGE = `usage: bun run faults cluster [--rounds N] [--seed S] [--fault NAME] [--planted BUG]
Kills, pauses and cuts off the nodes of clusters on this machine and the members of their etcd, while traders place and
cancel orders, and checks after each round that nothing acknowledged is lost or doubled.
  --rounds   default 20
  --seed     of an earlier run, to have its plan again
  --planted  in a copy with this bug, which is to be found: ${Object.keys(PLANTS).join(', ')}
  --fault    only this one: ${FAULTS.map(({ name }) => name).join('; ')}`

/** A member reserves 128 MiB at its start. */
const DISK_BYTES = 512 * 1024 * 1024

await runCommand(USAGE, async (args) => {
  const options = new Options(args, { texts: ['rounds', 'seed', 'fault', 'planted'], words: 1, least: 1 })
  if (options.words[0] !== 'cluster') throw new UsageFault('there is one campaign: cluster')
  const rounds = options.count('rounds', 20)
  const seed = options.count('seed', Date.now() % 1_000_000_000)
  const fault = options.optional('fault')
  if (fault !== undefined && !FAULTS.some(({ name }) => name === fault)) throw new UsageFault('no such fault')
  if (ETCD === undefined)
    throw new Error('etcd is missing: install etcd-server, or name its file in TACIT_ETCD')
  const planted = options.optional('planted')
  if (planted !== undefined) {
    if (!Object.hasOwn(PLANTS, planted)) throw new UsageFault('no such bug')
    const only = fault === undefined ? [] : ['--fault', fault]
    const code = await runPlanted(planted, ['--rounds', `${rounds}`, '--seed', `${seed}`, ...only])
    console.log(code === 0 ? `FAILED: ${planted} was not found` : `ok: ${planted} was found`)
    return code !== 0
  }
  console.log(`seed ${seed}`)
  const mountable = isMountable()
  const disks: Disk[] = []
  const etcd = await EtcdCluster.start((dir) => {
    const disk = mountable ? Disk.mount(dir, DISK_BYTES) : undefined
    if (disk !== undefined) disks.push(disk)
  })
  const campaign = new Campaign(etcd, seed, mountable, disks, fault === undefined ? [] : [fault])
  const end = async () => {
    await campaign.close()
    await etcd.stop(true)
    for (const disk of disks) disk.remove()
    await etcd.stop()
  }
  process.once('SIGINT', () => void end().finally(() => process.exit(1)))
  try {
    for (let round = 1; round <= rounds; round++) {
      const began_ms = performance.now()
      const name = await campaign.round().catch((cause) => {
        console.log(tableOf(campaign))
        throw new Error(`round ${round} of seed ${seed}: ${cause.message}`, { cause })
      })
      console.log(`${round}  ${name}, ${((performance.now() - began_ms) / 1_000).toFixed(1)} s`)
    }
    console.log(tableOf(campaign))
    console.log(
      `ok: seed ${seed}, ${rounds} rounds, ${campaign.acknowledged} acknowledged, 0 lost or doubled; fronts answered ${campaign.fronted} reads`,
    )
  } finally {
    await end()
  }
})
