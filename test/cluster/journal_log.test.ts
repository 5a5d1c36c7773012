/** The journal of a node on three real members: a frame is written here only when the log has it. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { logThread } from '../../engine/cluster/cluster_node'
import { Etcd } from '../../engine/cluster/etcd'
import { ReplicatedLog, type Term } from '../../engine/cluster/replicated_log'
import { type Journal, JournalClosed } from '../../engine/journal/contract'
import { openJournal } from '../../engine/journal/open_journal'
import { LIMITS } from '../../engine/limits'
import { concatBytes } from '../../protocol/bytes'
import { ETCD, EtcdCluster } from '../../sandbox/cluster/etcd_cluster'
import { failure, KEY, records, SIGNER, withFolder } from '../engine/journal/folder'
import { entryOf, START } from '../kit/etcd/log_entries'

const LIMIT_MS = 120_000
const SEGMENT_BYTES = 4 * 1024 * 1024
let cluster: EtcdCluster
let venues = 0

const SEALING = () => ({ key: KEY, venue: new Uint8Array(32).fill(100 + venues) })
const access = () => ({ endpoints: cluster.endpoints, tls: cluster.tls })
const logOf = () => new ReplicatedLog(new Etcd(access()), SEALING())

type Node = { journal: Journal; log: ReplicatedLog; lead(term: Term): void }

async function openNode(dir: string): Promise<Node> {
  const { thread, lead } = logThread(access(), SEALING())
  const journal = await openJournal({ dir, key: KEY, segment_bytes: SEGMENT_BYTES, thread })
  journal.signAs(SIGNER)
  return { journal, log: logOf(), lead }
}

/** A node that leads a new log. */
async function withLeader(body: (node: Node, dir: string) => Promise<void>): Promise<void> {
  venues++
  await withFolder(async (dir) => {
    const node = await openNode(dir)
    node.lead(await node.log.takeTerm(1, START))
    await body(node, dir)
    await node.journal.close()
  })
}

/** The folder's records after the node ended. */
async function headIn(dir: string): Promise<number> {
  const journal = await openJournal({ dir, key: KEY, segment_bytes: SEGMENT_BYTES })
  const { seq } = journal.head()
  await journal.close()
  return seq
}

async function entriesOf(log: ReplicatedLog) {
  const found = await log.read(START)
  for (let more = found; more.length > 0; found.push(...more)) more = await log.read(found.at(-1)!.to)
  return found
}

function expectClosed(error: unknown, verdict: string): void {
  expect(error).toBeInstanceOf(JournalClosed)
  expect((error as Error).name).toBe(verdict)
}

describe.skipIf(ETCD === undefined)('the journal of a node', () => {
  beforeAll(async () => {
    cluster = await EtcdCluster.start()
  }, LIMIT_MS)
  afterAll(() => cluster?.stop(), LIMIT_MS)

  test(
    'the log has the groups of the journal byte for byte, in entries of a bounded size',
    () =>
      withLeader(async ({ journal, log }) => {
        const appends = Array.from({ length: 30 }, (_, i) => journal.append(records(i, 2, 50_000)))
        appends.push(journal.append(records(30, 1, 900_000)), journal.append(records(31)))
        await Promise.all(appends)
        const entries = await entriesOf(log)
        expect(entries.at(-1)!.to).toEqual(journal.head())
        expect(entries.map(({ author }) => author.epoch)).toEqual(entries.map(() => SIGNER.epoch))
        for (const { groups } of entries)
          expect(groups.length === 1 || concatBytes(...groups).length <= LIMITS.log_entry_bytes).toBe(true)
        const kept: Uint8Array[] = []
        for await (const groups of journal.readGroups(START)) kept.push(...groups.map((one) => one.signature))
        const logged = concatBytes(...entries.flatMap(({ groups }) => groups))
        for (const signature of kept) expect(Buffer.from(logged).includes(signature)).toBe(true)
        expect(entries.reduce((sum, { groups }) => sum + groups.length, 0)).toBe(kept.length)
      }),
    LIMIT_MS,
  )

  test(
    'without a quorum nothing is acknowledged and nothing written; with it again the same group is',
    () =>
      withLeader(async ({ journal, log }) => {
        await journal.append(records(1))
        const leader = await cluster.leader()
        const others = [0, 1, 2].filter((one) => one !== leader)
        let done = false
        let appended: Promise<unknown>
        for (const one of others) cluster.pause(one)
        try {
          appended = journal.append(records(2)).then(() => {
            done = true
          })
          // The append is repeated several times meanwhile.
          await Bun.sleep(3 * LIMITS.log_request_ms)
          expect({ done, seq: journal.head().seq }).toEqual({ done: false, seq: 1 })
        } finally {
          // The other tests use the same members.
          for (const one of others) cluster.resume(one)
        }
        await appended
        expect((await entriesOf(log)).at(-1)!.to).toEqual(journal.head())
        expect(journal.head().seq).toBe(2)
      }),
    LIMIT_MS,
  )

  test(
    'a deposed leader acknowledges and writes nothing more',
    () =>
      withLeader(async ({ journal, log }, dir) => {
        await journal.append(records(1))
        const next = await log.takeTerm(2, journal.head())
        const late = [journal.append(records(2)), journal.append(records(3))].map(failure)
        for (const error of await Promise.all(late)) expectClosed(error, 'Deposed')
        expectClosed(await failure(journal.append(records(4))), 'Deposed')
        expect(await headIn(dir)).toBe(1)
        expect(await log.look()).toMatchObject({ head: { seq: 1 }, term: next })
      }),
    LIMIT_MS,
  )

  test(
    'a leader whose log another hand moved ends by that verdict, and writes nothing more',
    () =>
      withLeader(async ({ journal, log }, dir) => {
        await journal.append(records(1))
        const { term } = await log.look()
        await log.append(term!, entryOf(journal.head(), 'foreign'))
        expectClosed(await failure(journal.append(records(2))), 'LogRolledBack')
        expect(await headIn(dir)).toBe(1)
      }),
    LIMIT_MS,
  )

  test(
    'a node without a term appends nothing',
    async () => {
      venues++
      await withFolder(async (dir) => {
        const { journal, log } = await openNode(dir)
        expect(`${await failure(journal.append(records(1)))}`).toContain('leads no term')
        expect(await headIn(dir)).toBe(0)
        expect((await log.look()).head.seq).toBe(0)
      })
    },
    LIMIT_MS,
  )

  test(
    'the size of an entry shows its size in steps only',
    () =>
      withLeader(async ({ journal }) => {
        for (const bytes of [1, 50, 300]) await journal.append(records(1, 1, bytes))
        const prefix = `tacit/${Buffer.from(SEALING().venue).toString('hex')}/log`
        const range = { range: prefix, to: `${prefix}~`, most: 9 }
        const { found } = await new Etcd(access()).txn([], [range])
        const [small, ...others] = found[0]!.map(({ value }) => value.length)
        expect(others).toEqual([small!, small!])
        await journal.append(records(1, 1, 1_200))
        const again = await new Etcd(access()).txn([], [range])
        expect(again.found[0]!.at(-1)!.value.length).toBeGreaterThan(small!)
      }),
    LIMIT_MS,
  )
})
