/** Replaces the data of all members of etcd by a copy, as an owner does who restores a backup. */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import type { EtcdCluster } from '../../../sandbox/cluster/etcd_cluster'

type PlaceOf = (member: number) => string

export const dataOf =
  (etcd: EtcdCluster): PlaceOf =>
  (member) =>
    join(etcd.dataDir(member), 'member')

/** All members stop, each folder `to` becomes a copy of `from`, and they start again. */
export async function putBack(etcd: EtcdCluster, from: PlaceOf, to: PlaceOf): Promise<void> {
  const members = [...etcd.endpoints.keys()]
  for (const one of members) await etcd.kill(one)
  for (const one of members) {
    rmSync(to(one), { recursive: true, force: true })
    // The files of members are mostly reserved space.
    const code = await Bun.spawn(['cp', '-a', '--sparse=always', from(one), to(one)]).exited
    if (code !== 0) throw new Error(`the data of member ${one} was not copied`)
  }
  for (const one of members) etcd.restart(one)
  await etcd.untilWritable()
}
