/** Three server processes whose settings name one log: kill -9 of the leading one, and another serves. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ETCD } from '../../sandbox/cluster/etcd_cluster'
import { LocalCluster, NODES } from '../../sandbox/cluster/local_cluster'

const LIMIT_MS = 300_000
const dir = mkdtempSync(join(tmpdir(), 'tacit-nodes-'))
let cluster: LocalCluster

async function serving(): Promise<(typeof NODES)[number]> {
  for (;;) {
    const number = NODES.find((one) => cluster.stateOf(one) === 'serves')
    if (number !== undefined) return number
    await Bun.sleep(20)
  }
}

async function statusOf(number: number): Promise<Record<string, unknown>> {
  const { url } = cluster.facts(number)!
  const response = await fetch(`${url}/system/status`, { tls: { rejectUnauthorized: false } })
  return (await response.json()) as Record<string, unknown>
}

describe.skipIf(ETCD === undefined)('three processes', () => {
  beforeAll(async () => {
    cluster = await LocalCluster.open(dir, 100, (error) => console.error(error))
    for (const number of NODES) cluster.start(number)
  }, LIMIT_MS)
  afterAll(async () => {
    await cluster?.stop()
    rmSync(dir, { recursive: true, force: true })
  }, LIMIT_MS)

  test(
    'kill -9 of the leading node: another one serves, from the same log, and the first follows again',
    async () => {
      const first = await serving()
      expect(await statusOf(first)).toMatchObject({ matching: 'running' })
      const log = await cluster.log()
      const before = await log.look()
      await cluster.kill(first)
      const second = await serving()
      expect(second).not.toBe(first)
      expect(await statusOf(second)).toMatchObject({ matching: 'running' })
      const after = await log.look()
      expect(after.term!.number).toBeGreaterThan(before.term!.number)
      expect(after.head.seq).toBeGreaterThan(before.head.seq)
      expect(NODES.filter((one) => cluster.stateOf(one) === 'serves')).toEqual([second])
      cluster.start(first)
      await Bun.sleep(0)
      expect(cluster.stateOf(first)).toBe('follows')
    },
    LIMIT_MS,
  )
})
