/** The replicated log on a real cluster of three members: comparisons, lost replies, kills, rollback, ciphertext. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Etcd, NoReply } from '../../engine/cluster/etcd'
import {
  Deposed,
  LeaderLives,
  LogGap,
  LogRolledBack,
  ReplicatedLog,
} from '../../engine/cluster/replicated_log'
import type { SignedFrame } from '../../engine/journal/contract'
import { LIMITS } from '../../engine/limits'
import { toHex } from '../../protocol/bytes'
import { ETCD, EtcdCluster, etcdCertificates } from '../../sandbox/cluster/etcd_cluster'
import { failure } from '../engine/journal/folder'
import { all, entryOf, etcdOf, logsOf, newSealing, START, textsOf, written } from '../kit/etcd/log_entries'

const LIMIT_MS = 120_000
let cluster: EtcdCluster

describe.skipIf(ETCD === undefined)('on three members', () => {
  beforeAll(async () => {
    cluster = await EtcdCluster.start()
  }, LIMIT_MS)
  afterAll(() => cluster?.stop(), LIMIT_MS)

  test(
    'a client without a certificate of the authority is rejected',
    async () => {
      const { ca } = cluster.tls
      for (const own of [{ cert: '', key: '' }, etcdCertificates()]) {
        const foreign = new Etcd({ endpoints: cluster.endpoints, tls: { ...own, ca } })
        expect(await failure(foreign.txn([], [{ get: 'a' }]))).toBeInstanceOf(NoReply)
      }
      expect((await etcdOf(cluster).txn([], [{ get: 'a' }])).succeeded).toBe(true)
    },
    LIMIT_MS,
  )

  test(
    'entries come back as they were appended, large ones in parts',
    async () => {
      const [log, other] = logsOf(cluster, 2)
      const term = await log!.takeTerm(1, START)
      const large = entryOf(START, 'x'.repeat(2_000_000), 'behind it')
      const small = entryOf(large.to, 'a', 'b')
      await log!.append(term, large)
      await log!.append(term, small)
      expect(await all(other!)).toEqual([large, small])
      expect(await all(other!, large.to)).toEqual([small])
      expect(await other!.look()).toEqual({ head: small.to, term })
    },
    LIMIT_MS,
  )

  test(
    'a stale head and an old term are rejected, and change nothing',
    async () => {
      const [log, other] = logsOf(cluster, 2)
      const term = await log!.takeTerm(1, START)
      const first = entryOf(START, 'first')
      await log!.append(term, first)
      expect(await failure(log!.append(term, entryOf(START, 'stale')))).toBeInstanceOf(LogRolledBack)
      const next = await other!.takeTerm(2, first.to)
      expect(next.number).toBe(term.number + 1)
      expect(await failure(log!.append(term, entryOf(first.to, 'deposed')))).toBeInstanceOf(Deposed)
      expect(await failure(log!.removeBefore(term, 2))).toBeInstanceOf(Deposed)
      await other!.append(next, entryOf(first.to, 'second'))
      expect(textsOf(await all(log!))).toEqual(['first', 'second'])
    },
    LIMIT_MS,
  )

  test(
    'parts that a deposed leader left are no part of the entry at their place',
    async () => {
      const sealing = newSealing()
      const [log, other] = logsOf(cluster, 2, sealing)
      const term = await log!.takeTerm(1, START)
      // The leader is deposed between two parts.
      const cut = new (class extends Etcd {
        override async txn(...call: Parameters<Etcd['txn']>) {
          const done = await super.txn(...call)
          const put = call[1].find((one) => 'put' in one)
          if (put !== undefined && 'put' in put && put.put.endsWith('/0001')) await other!.takeTerm(2, START)
          return done
        }
      })({ endpoints: cluster.endpoints, tls: cluster.tls })
      const left = new ReplicatedLog(cut, sealing).append(term, entryOf(START, 'x'.repeat(2_000_000)))
      expect(await failure(left)).toBeInstanceOf(Deposed)
      expect(await all(other!)).toEqual([])
      const newer = await other!.takeTerm(2, START)
      const entry = entryOf(START, 'small')
      await other!.append(newer, entry)
      await other!.append(newer, entryOf(entry.to, 'after'))
      expect(textsOf(await all(log!))).toEqual(['small', 'after'])
    },
    LIMIT_MS,
  )

  test(
    'of two nodes that take a term at once one has it',
    async () => {
      const logs = logsOf(cluster, 3)
      const taken = await Promise.all(logs.map((log, node) => log.takeTerm(node, START).catch((e) => e)))
      const terms = taken.filter((one) => !(one instanceof Error))
      expect(terms.length).toBeGreaterThan(0)
      const { term } = await logs[0]!.look()
      const results = await Promise.all(
        taken.map((one, node) =>
          one instanceof Error ? one : logs[node]!.append(one, entryOf(START, `of ${node}`)).catch((e) => e),
        ),
      )
      expect(textsOf(await all(logs[0]!))).toEqual([`of ${term!.node}`])
      for (const [node, result] of results.entries())
        if (node !== term!.node) expect(result).toBeInstanceOf(Deposed)
    },
    LIMIT_MS,
  )

  test(
    'of two nodes that saw the same term silent, the second takes none',
    async () => {
      const [log, first, second] = logsOf(cluster, 3)
      await log!.takeTerm(1, START)
      const { term } = await first!.poll(START)
      // The owner of etcd names no file of a node.
      for (const [shown, url] of [
        ['https://node:8444', 'https://node:8444'],
        ['file:///proc/self/environ?', ''],
        ['data:,{}#', ''],
      ] as const) {
        await log!.beat(term!, 1, shown)
        expect((await first!.poll(START)).leader_url).toBe(url)
      }
      const next = await first!.takeTerm(2, START, { term })
      expect(await failure(second!.takeTerm(3, START, { term }))).toBeInstanceOf(Deposed)
      expect((await log!.look()).term).toEqual(next)
    },
    LIMIT_MS,
  )

  test(
    'an append goes on over kill -9 of the leading member',
    async () => {
      const [log] = logsOf(cluster)
      const term = await log!.takeTerm(1, START)
      let point = START
      const acknowledged: string[] = []
      const append = async (text: string) => {
        const entry = entryOf(point, text)
        await log!.append(term, entry)
        point = entry.to
        acknowledged.push(text)
      }
      for (let i = 0; i < 5; i++) await append(`before ${i}`)
      const leader = await cluster.leader()
      const kill = cluster.kill(leader)
      for (let i = 0; i < 5; i++) await append(`after ${i}`)
      await kill
      cluster.restart(leader)
      await cluster.untilWritable()
      expect(textsOf(await all(log!))).toEqual(acknowledged)
    },
    LIMIT_MS,
  )

  test(
    'after a reply that is lost in a paused member the entry is there once',
    async () => {
      const [log] = logsOf(cluster)
      const term = await log!.takeTerm(1, START)
      const first = entryOf(START, 'first')
      cluster.pause(0)
      const appended = log!.append(term, first)
      await appended
      const second = entryOf(first.to, 'second')
      await log!.append(term, second)
      cluster.resume(0)
      await cluster.untilWritable()
      await log!.append(term, entryOf(second.to, 'third'))
      expect(textsOf(await all(log!))).toEqual(['first', 'second', 'third'])
    },
    LIMIT_MS,
  )

  test(
    'a term is given to one node, which alone appends from then on; of two hand-overs and a takeover at once one has it',
    async () => {
      const [log] = logsOf(cluster)
      const term = await log!.takeTerm(1, START)
      const [entry] = await written(log!, term, 'one')
      const given = await Promise.allSettled([
        log!.handTerm(term, 7),
        log!.handTerm(term, 8),
        log!.takeTerm(9, entry!.to, { term }),
      ])
      expect(given.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
      for (const one of given) if (one.status === 'rejected') expect(one.reason).toBeInstanceOf(Deposed)
      const { term: next } = await log!.look()
      const has = [7, 8, 9][given.findIndex(({ status }) => status === 'fulfilled')]
      expect(next).toMatchObject({ number: term.number + 1, node: has })
      expect(await failure(log!.append(term, entryOf(entry!.to, 'old')))).toBeInstanceOf(Deposed)
      await log!.append(next!, entryOf(entry!.to, 'two'))
      expect(await failure(log!.handTerm(term, 1))).toBeInstanceOf(Deposed)
      expect(textsOf(await all(log!, START))).toEqual(['one', 'two'])
    },
    LIMIT_MS,
  )

  test(
    'removal needs the term, and a reader behind it finds a gap',
    async () => {
      const [log] = logsOf(cluster)
      const term = await log!.takeTerm(1, START)
      const entries = await written(log!, term, 'one', 'two', 'three')
      expect(await log!.removeBefore(term, 3)).toBeGreaterThan(0)
      expect(await failure(log!.read(START))).toBeInstanceOf(LogGap)
      expect(textsOf(await all(log!, entries[1]!.to))).toEqual(['three'])
    },
    LIMIT_MS,
  )

  test(
    'a log that is older than a journal, or another one, gets no leader and no reader',
    async () => {
      const sealing = newSealing()
      const [log, other] = logsOf(cluster, 2, sealing)
      const term = await log!.takeTerm(1, START)
      const entries = await written(log!, term, 'one', 'two')
      const [{ to: kept }, { to: ahead }] = entries as [SignedFrame, SignedFrame]
      const contradicting = entryOf(kept, 'otherwise').to
      const further = entryOf(ahead, 'three').to
      for (const own of [contradicting, further]) {
        expect(await failure(other!.takeTerm(2, own))).toBeInstanceOf(LogRolledBack)
        expect(await failure(other!.read(own))).toBeInstanceOf(LogRolledBack)
      }
      // A backup of etcd from before the second entry, as far as this venue's keys go.
      const before = `tacit/${toHex(sealing.venue)}/`
      const { found } = await etcdOf(cluster).txn([], [{ range: before, to: `${before}~`, most: 9 }])
      const old = found[0]!.find(({ key }) => key.endsWith('/head'))!
      const value = Uint8Array.from(old.value)
      value.set([1, 0, 0, 0, 0, 0, 0, 0])
      value.set(kept.head, 8)
      await etcdOf(cluster).txn([], [{ put: old.key, value }])
      // An entry behind the head was not acknowledged.
      expect(textsOf(await other!.read(START))).toEqual(['one'])
      expect(await failure(log!.append(term, entryOf(ahead, 'three')))).toBeInstanceOf(LogRolledBack)
      expect(await failure(other!.takeTerm(2, ahead))).toBeInstanceOf(LogRolledBack)
      // And from a contradicting node: it does not read entries of another history.
      await etcdOf(cluster).txn([], [{ put: old.key, value: old.value }])
      const forked = entryOf(START, 'forked').to
      expect(await failure(other!.read(forked))).toBeInstanceOf(LogRolledBack)
    },
    LIMIT_MS,
  )

  test(
    'a log begins behind a journal that is ahead of it, deposes its leader, and keeps its entries behind one that is not',
    async () => {
      const sealing = newSealing()
      const [log, other] = logsOf(cluster, 2, sealing)
      const term = await log!.takeTerm(1, START)
      const entries = [entryOf(START, 'one')]
      entries.push(entryOf(entries[0]!.to, 'two'), entryOf(entries[0]!.to, 'otherwise'))
      await log!.append(term, entries[0]!)
      const [{ to: kept }, { to: ahead }, { to: elsewhere }] = entries as [
        SignedFrame,
        SignedFrame,
        SignedFrame,
      ]
      for (const own of [kept, { seq: kept.seq, head: new Uint8Array(32).fill(1) }])
        expect(await failure(other!.beginBehind(own))).toBeInstanceOf(LogRolledBack)
      expect(textsOf(await all(log!))).toEqual(['one'])
      // Parts of an entry that a deposed leader began go.
      const place = `tacit/${toHex(sealing.venue)}/log/${String(kept.seq + 1).padStart(16, '0')}/`
      const left = [0, 1].map((part) => ({ put: `${place}000${part}`, value: new Uint8Array(9) }))
      await etcdOf(cluster).txn([], left)
      await other!.beginBehind(ahead)
      const { found } = await etcdOf(cluster).txn([], [{ range: place, to: `${place}~`, most: 9 }])
      expect(found).toEqual([[]])
      expect(await failure(log!.append(term, entries[2]!))).toBeInstanceOf(Deposed)
      expect(await failure(log!.append(term, entryOf(ahead, 'deposed')))).toBeInstanceOf(Deposed)
      // A second repair, from the other of two journals, changes nothing.
      expect(await failure(log!.beginBehind(elsewhere))).toBeInstanceOf(LogRolledBack)
      expect(await failure(log!.read(elsewhere))).toBeInstanceOf(LogRolledBack)
      expect(await failure(log!.read(kept))).toBeInstanceOf(LogGap)
      expect(textsOf(await log!.read(START))).toEqual(['one'])
      const next = await other!.takeTerm(2, ahead)
      await other!.append(next, entryOf(ahead, 'three'))
      expect(textsOf(await all(log!, ahead))).toEqual(['three'])
    },
    LIMIT_MS,
  )

  test(
    'a repair at a wrong seq while a leader lives changes nothing',
    async () => {
      const [log, other] = logsOf(cluster, 2)
      const term = await log!.takeTerm(1, START)
      const [one] = await written(log!, term, 'one')
      let leads = true
      const beating = (async () => {
        for (let count = 1; leads; count++) {
          await log!.beat(term, count)
          await Bun.sleep(LIMITS.leader_beat_ms)
        }
      })()
      const wrong = { seq: 1_000_000, head: one!.to.head }
      expect(await failure(other!.beginBehind(wrong))).toBeInstanceOf(LeaderLives)
      leads = false
      await beating
      await log!.append(term, entryOf(one!.to, 'two'))
      expect(textsOf(await all(other!))).toEqual(['one', 'two'])
    },
    LIMIT_MS,
  )

  test(
    'a changed, moved or foreign entry is noticed',
    async () => {
      const sealing = newSealing()
      const [log] = logsOf(cluster, 1, sealing)
      const term = await log!.takeTerm(1, START)
      const entries = await written(log!, term, 'one', 'two')
      const prefix = `tacit/${toHex(sealing.venue)}/log/`
      const { found } = await etcdOf(cluster).txn([], [{ range: prefix, to: `${prefix}~`, most: 9 }])
      const [one, two] = found[0]!
      const flipped = Uint8Array.from(two!.value)
      flipped[flipped.length - 40]! ^= 1
      for (const value of [flipped, one!.value, two!.value.slice(0, 60)]) {
        await etcdOf(cluster).txn([], [{ put: two!.key, value }])
        expect(await failure(log!.read(entries[0]!.to))).toBeInstanceOf(LogRolledBack)
      }
      await etcdOf(cluster).txn([], [{ put: two!.key, value: two!.value }])
      expect(textsOf(await all(log!))).toEqual(['one', 'two'])
    },
    LIMIT_MS,
  )

  test(
    'no member has a record in clear on its disk',
    async () => {
      const sealing = newSealing()
      const [log] = logsOf(cluster, 1, sealing)
      const term = await log!.takeTerm(1, START)
      const marked = 'a marked order that is searched for'
      await log!.append(term, entryOf(START, marked))
      const files = [0, 1, 2].flatMap((member) =>
        readdirSync(cluster.dataDir(member), { recursive: true, withFileTypes: true })
          .filter((entry) => entry.isFile())
          .map((entry) => readFileSync(join(entry.parentPath, entry.name))),
      )
      const venue = toHex(sealing.venue)
      expect(files.some((bytes) => bytes.includes(venue))).toBe(true)
      for (const text of [marked, 'marked order'])
        expect(files.some((bytes) => bytes.includes(text))).toBe(false)
    },
    LIMIT_MS,
  )
})
