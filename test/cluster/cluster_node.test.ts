/** A node of a cluster on three members: the term that it takes and leaves, and the entries that it removes from the log. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { ClusterNode, LogTrim } from '../../engine/cluster/cluster_node'
import { Etcd, NoReply } from '../../engine/cluster/etcd'
import { Deposed, LogGap, ReplicatedLog } from '../../engine/cluster/replicated_log'
import { LIMITS } from '../../engine/limits'
import { ETCD, EtcdCluster } from '../../sandbox/cluster/etcd_cluster'
import { failure } from '../engine/journal/folder'
import { all, entryOf, logsOf, newSealing, START, textsOf, written } from '../kit/etcd/log_entries'

const LIMIT_MS = 120_000
const { log_kept_bytes } = LIMITS
beforeAll(() => Object.assign(LIMITS, { log_kept_bytes: 0 }))
afterAll(() => Object.assign(LIMITS, { log_kept_bytes }))
let cluster: EtcdCluster

/** Each call starts a node of the same cluster. */
function nodesOf(sealing: ReturnType<typeof newSealing>) {
  return () => {
    const { endpoints, tls } = cluster
    const clock = { ahead_ms: 0 }
    const node = new ClusterNode({ endpoints, tls }, sealing, '', () => performance.now() + clock.ahead_ms, 8)
    const deposed = Promise.withResolvers<Error>()
    const leads = node.untilLeading(
      () => START,
      async () => undefined,
      deposed.resolve,
    )
    return { node, clock, leads, deposed: deposed.promise }
  }
}
const waits = async ({ leads }: ReturnType<ReturnType<typeof nodesOf>>) =>
  (await Promise.race([leads, Bun.sleep(3 * LIMITS.leader_silence_ms)])) === undefined

describe.skipIf(ETCD === undefined)('on three members', () => {
  beforeAll(async () => {
    cluster = await EtcdCluster.start()
  }, LIMIT_MS)
  afterAll(() => cluster?.stop(), LIMIT_MS)

  test(
    'a node that has the term and does not serve leaves it to another, one that serves keeps it',
    async () => {
      const started = nodesOf(newSealing())
      const hung = started()
      await hung.leads
      const second = started()
      expect(await waits(second)).toBe(true)
      hung.clock.ahead_ms = LIMITS.term_opening_ms
      await second.leads
      expect(await hung.deposed).toBeInstanceOf(Deposed)
      second.node.served(0)
      const third = started()
      second.clock.ahead_ms = LIMITS.term_opening_ms
      expect(await waits(third)).toBe(true)
      for (const { node } of [hung, second, third]) node.stop()
      expect(await failure(third.leads)).toMatchObject({ name: 'Stopped' })
    },
    LIMIT_MS,
  )

  test(
    'a node knows its gap in the log, and hands over to the one with the smallest gap that carries the version',
    async () => {
      const sealing = newSealing()
      const [log] = logsOf(cluster, 1, sealing)
      const { endpoints, tls } = cluster
      const node = new ClusterNode({ endpoints, tls }, sealing, '', () => performance.now(), 8)
      expect(node.lag(0)).toEqual({ records: 0, age_ms: Number.POSITIVE_INFINITY })
      await written(log!, await log!.takeTerm(1, START), 'one', 'two')
      let end = START
      await node.untilLeading(
        () => end,
        async ({ to }) => {
          end = to
        },
        () => undefined,
      )
      expect([0, 1, 2, 3].map((seq) => node.lag(seq).records)).toEqual([2, 1, 0, 0])
      expect(node.lag(0).age_ms).toBeLessThan(LIMIT_MS)

      let follow = true
      const following = (async () => {
        for (let count = 1; follow; count++) {
          await log!.report(7, { seq: 100_000, count, newest: 8 })
          await log!.report(8, { seq: 90_000, count, newest: 9 })
          await log!.report(9, { seq: 110_000, count, newest: 7 })
          await Bun.sleep(LIMITS.node_live_ms / 10)
        }
      })()
      // One that reports no more has ended.
      await log!.report(10, { seq: 120_000, count: 1, newest: 9 })
      await Bun.sleep(LIMITS.node_live_ms / 5)
      const seq = 100_000 + LIMITS.handover_records_max
      const found = [
        [seq, 8],
        [seq + 1, 8],
        [100_000, 9],
      ].map(([at, version]) => node.successor(() => at!, version!))
      expect(await Promise.all(found)).toEqual([7, undefined, 8])
      follow = false
      await following
      node.stop()
    },
    LIMIT_MS,
  )

  test(
    'a node that leaves is no successor and takes no term, nor one that it is given; one that reports late is found',
    async () => {
      const { node_live_ms, node_report_ms } = LIMITS
      Object.assign(LIMITS, { node_live_ms: 300, node_report_ms: 100 })
      try {
        const started = nodesOf(newSealing())
        const leading = started()
        await leading.leads
        leading.node.served(0)
        const left = started()
        await Bun.sleep(300)
        expect([left.node.leave(), leading.node.leave()]).toEqual([true, false])
        expect(await leading.node.successor(() => 0, 8)).toBeUndefined()
        const found = leading.node.successor(() => 0, 8)
        await Bun.sleep(350)
        const late = started()
        expect(await found).toBe(late.node['number'])
        await leading.node.handTo(left.node['number'])
        await late.leads
        expect(await waits(left)).toBe(true)
        for (const { node } of [left, late]) node.stop()
        expect(await failure(left.leads)).toMatchObject({ name: 'Stopped' })
      } finally {
        Object.assign(LIMITS, { node_live_ms, node_report_ms })
      }
    },
    LIMIT_MS,
  )

  test(
    'the leader removes entries that each live node has, and none that a recently seen node needs',
    async () => {
      const [log] = logsOf(cluster)
      const term = await log!.takeTerm(1, START)
      const entries = await written(log!, term, 'one', 'two', 'three', 'four')
      let now_ms = 0
      const trim = new LogTrim(log!, term, () => now_ms, 8)
      const first = async () => {
        for (const point of [START, ...entries.map(({ to }) => to)])
          if (!((await log!.read(point).catch((error) => error)) instanceof LogGap)) return point.seq + 1
        return undefined
      }
      // The leader's own report is not one of another disk.
      await trim.pass(4)
      expect(await first()).toBe(1)
      await log!.report(7, { seq: 3, count: 1, newest: 8 })
      await log!.report(8, { seq: 1, count: 1, newest: 8 })
      // A small log keeps all for a node that starts late.
      Object.assign(LIMITS, { log_kept_bytes })
      await trim.pass(4)
      Object.assign(LIMITS, { log_kept_bytes: 0 })
      expect(await first()).toBe(1)
      await trim.pass(4)
      expect(await first()).toBe(2)
      // A node that reports the same end lives; one that is silent does not.
      now_ms = LIMITS.node_silence_ms - 1
      await log!.report(7, { seq: 3, count: 2, newest: 8 })
      await trim.pass(4)
      expect(await first()).toBe(2)
      now_ms++
      await trim.pass(4)
      expect(await first()).toBe(4)
      expect([...(await log!.reports()).keys()].sort()).toEqual([term.node, 7])
      // No more than this node has on its own disk.
      await log!.report(7, { seq: 4, count: 3, newest: 8 })
      await trim.pass(3)
      expect(await first()).toBe(4)
      const next = await log!.takeTerm(7, entries[3]!.to)
      expect(await failure(trim.pass(3))).toBeInstanceOf(Deposed)
      // The node that led before finds the missing entries when it starts again.
      await log!.report(9, { seq: 4, count: 1, newest: 8 })
      await new LogTrim(log!, next, () => now_ms, 8).pass(4)
      expect(await first()).toBe(4)
    },
    LIMIT_MS,
  )

  test(
    'where more nodes reported than are read, nothing is removed of which one of the others may be in need',
    async () => {
      const [log] = logsOf(cluster)
      const term = await log!.takeTerm(1, START)
      const entries = await written(log!, term, 'one', 'two', 'three')
      // Of a node that ends soon after each start.
      for (let boot = 2; boot < 2 + LIMITS.log_nodes_max; boot++)
        await log!.report(boot, { seq: 3, count: 1, newest: 8 })
      await log!.report(2 ** 32 - 1, { seq: 1, count: 1, newest: 8 })
      const trim = new LogTrim(log!, term, () => 0, 8)
      for (let pass = 0; pass < 2; pass++) await trim.pass(3)
      expect(textsOf(await all(log!, entries[0]!.to))).toEqual(['two', 'three'])
    },
    LIMIT_MS,
  )

  test(
    'a full log keeps nothing for a node that is silent for seconds',
    async () => {
      const sealing = newSealing()
      const full = new (class extends Etcd {
        override async compact(): Promise<number> {
          await super.compact()
          return LIMITS.log_bytes_max + 1
        }
      })({ endpoints: cluster.endpoints, tls: cluster.tls })
      const log = new ReplicatedLog(full, sealing)
      const term = await log.takeTerm(1, START)
      const entry = entryOf(START, 'one')
      await log.append(term, entry)
      await log.report(7, { seq: 0, count: 1, newest: 8 })
      let now_ms = 0
      const trim = new LogTrim(log, term, () => now_ms, 8)
      await trim.pass(1)
      now_ms = LIMITS.node_silence_full_ms - 1
      await trim.pass(1)
      expect(textsOf(await all(log))).toEqual(['one'])
      now_ms++
      await trim.pass(1)
      expect(await failure(log.read(START))).toBeInstanceOf(LogGap)
      expect(await log.read(entry.to)).toEqual([])
    },
    LIMIT_MS,
  )
})

test('a node that leaves while it takes the term opens nothing under it, and shows no life', async () => {
  const node = new ClusterNode(
    { endpoints: ['https://127.0.0.1:1'] } as never,
    newSealing(),
    '',
    () => performance.now(),
    8,
  )
  const [asked, given] = [Promise.withResolvers<void>(), Promise.withResolvers<object>()]
  const term = { number: 2, node: node['number'], nonce: new Uint8Array(16) }
  const beats: unknown[] = []
  Object.assign(node, {
    log: {
      poll: async () => ({ entries: [], head: { seq: 0 }, life: 'same', term: undefined, leader_url: '' }),
      report: async () => undefined,
      takeTerm() {
        asked.resolve()
        return given.promise
      },
      read: async () => [],
      beat: async (_: unknown, count: number) => void beats.push(count),
    },
    writer: { lead: (one: unknown) => void beats.push(one) },
  })
  const leads = node.untilLeading(
    () => START,
    async () => undefined,
    () => undefined,
  )
  await asked.promise
  expect(node.leave()).toBe(true)
  given.resolve(term)
  await Bun.sleep(100)
  node.stop()
  expect(await failure(leads)).toMatchObject({ name: 'Stopped' })
  expect(beats).toEqual([])
})

test('a new leading node is alone once the right of the one before is over by etcd and by the chain', async () => {
  const access = { endpoints: ['https://127.0.0.1:1'] } as never
  let now_ms = 0
  const node = new ClusterNode(access, newSealing(), '', () => now_ms, 8)
  const term = { number: 2, node: node['number'], nonce: new Uint8Array(16) }
  const found = { entries: [], head: { seq: 0 }, life: 'same', term, leader_url: '' }
  Object.assign(node, {
    log: {
      poll: async () => found,
      report: async () => undefined,
      read: async () => [],
      beat: async () => undefined,
    },
    writer: { lead: () => undefined },
  })
  await node.untilLeading(
    () => START,
    async () => undefined,
    () => undefined,
  )
  const isAlone = async () =>
    (await Promise.race([node.alone(), Bun.sleep(20).then(() => 'not yet')])) === undefined
  // The chain shows at once that the lease of the epoch before is over, and later that it was not.
  node.served(0)
  expect(await isAlone()).toBe(false)
  now_ms = LIMITS.right_wait * LIMITS.right_ms
  expect(await isAlone()).toBe(true)
  node.served(2 * now_ms)
  expect(await isAlone()).toBe(false)
  node.stop()
})

/** A node over a log of the test's own. */
function nodeOn(log: object, monotonicMs: () => number): ClusterNode {
  const access = { endpoints: ['https://127.0.0.1:1'] } as never
  const node = new ClusterNode(access, newSealing(), '', monotonicMs, 8)
  Object.assign(node, { log })
  return node
}

test('a time without answers of etcd is no silence of the leader', async () => {
  let now_ms = 0
  let replies = true
  const found = { entries: [], head: { seq: 0 }, life: 'same', term: undefined, leader_url: '' }
  const poll = async () => {
    if (!replies) throw new NoReply('no answer')
    return found
  }
  const node = nodeOn({ poll, report: async () => undefined }, () => now_ms)
  const follow = () =>
    node['follow'](
      () => START,
      async () => undefined,
    )
  expect(await follow()).toBe(true)
  ;[now_ms, replies] = [LIMITS.leader_silence_ms, false]
  expect(await follow()).toBe(true)
  replies = true
  expect(await follow()).toBe(true)
  now_ms *= 2
  expect(await follow()).toBe(false)
})

test('the term goes to the node with the longest journal, and nothing is shown while it is given', async () => {
  const stopped: boolean[] = []
  const node = nodeOn({ handTerm: async () => stopped.push(node['is_stopped']) }, () => 0)
  const reports = [90, 100].map((seq, at) => [at, { seq, count: 1, newest: 8 }])
  Object.assign(node, { liveNodes: async () => reports })
  expect(await node.successor(() => 100, 8)).toBe(1)
  await node.handTo(1)
  expect(stopped).toEqual([true])
})
