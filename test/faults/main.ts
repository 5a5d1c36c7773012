/** `bun run faults cluster`: the campaign on a cluster of processes, also with a planted bug; its faults and takeover times. */

import { Options, runCommand, UsageFault } from '../../client/cli/command'
import { ETCD, EtcdCluster } from '../../sandbox/cluster/etcd_cluster'
import { Disk, isMountable } from '../kit/small_volume'
import { Campaign, FAULTS } from './cluster/campaign'
import { findsPlanted, PLANTS } from './cluster/planted'

/** Milliseconds at a share of the sorted list. */
function at(sorted: readonly number[], share: number): string {
  const value = sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))]
  return value === undefined ? '' : value.toFixed(0)
}

function tableOf({ met, takeovers }: Pick<Campaign, 'met' | 'takeovers'>): string {
  const head = ['fault', 'rounds', 'takeovers', 'p50 ms', 'p95 ms', 'worst ms', 'detected p50', 'opened p50']
  const row = (name: string, rounds: number, own: Campaign['takeovers']) => {
    const sorted = (value: (one: Campaign['takeovers'][number]) => number) =>
      own.map(value).sort((a, b) => a - b)
    const ms = sorted((one) => one.ms)
    return [
      name,
      `${rounds}`,
      `${own.length}`,
      at(ms, 0.5),
      at(ms, 0.95),
      at(ms, 1),
      at(
        sorted((one) => one.detected_ms),
        0.5,
      ),
      at(
        sorted((one) => one.opened_ms),
        0.5,
      ),
    ]
  }
  const names = [...met.keys()].sort()
  const rows = names.map((name) =>
    row(
      name,
      met.get(name)!,
      takeovers.filter(({ fault }) => fault === name),
    ),
  )
  rows.push(
    row(
      'all',
      [...met.values()].reduce((sum, one) => sum + one, 0),
      takeovers,
    ),
  )
  const widths = head.map((_, column) => Math.max(...[head, ...rows].map((one) => one[column]!.length)))
  return [head, ...rows]
    .map((one) =>
      one.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!))).join('  '),
    )
    .join('\n')
}

const USAGE = `usage: bun run faults cluster [--rounds N] [--seed S] [--fault NAME] [--planted BUG]
Kills, pauses and cuts off the nodes of clusters on this machine and the members of their etcd, while traders place and
cancel orders, and checks after each round that nothing acknowledged is lost or doubled.
  --rounds   default 20; each fault comes once before any comes again
  --seed     of an earlier run, to have its plan again
  --planted  in a copy with this bug, which the fault that shows it must find: ${Object.keys(PLANTS).join(', ')}
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
    const only = ['--fault', fault ?? PLANTS[planted]!.fault]
    const is_found = await findsPlanted(planted, ['--rounds', `${rounds}`, '--seed', `${seed}`, ...only])
    console.log(is_found ? `ok: ${planted} was found` : `FAILED: ${planted} was not found`)
    return is_found
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
