/** A cluster of processes is replaced by the next build under load: no cancel is rejected, no order lost (cluster.md "Upgrade"). */

import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openChainAccess } from '../../client/chain/chain_access'
import { connect } from '../../client/connect'
import { Session } from '../../client/session/session'
import { parsePolicy } from '../../client/verify/policy'
import { parseCollateral } from '../../client/verify/tdx/collateral'
import { Wallet } from '../../client/wallet/wallet'
import { saveWallet } from '../../client/wallet/wallet_file'
import { LIMITS } from '../../engine/limits'
import { FIRST_VERSION } from '../../engine/machine/state/state'
import { ETCD } from '../../sandbox/cluster/etcd_cluster'
import { LocalCluster, NODES } from '../../sandbox/cluster/local_cluster'
import { USDC } from '../../sandbox/environment'
import { fundTrader, openAccount } from '../faults/kit/open_trader'
import { NEXT_TIMER_SLOTS, NEXT_VERSION, nextBuild, type TreeCopy } from '../kit/copy_tree'

const LIMIT_MS = 300_000
const SLOT_MS = Number(process.env['UPGRADE_SLOT_MS'] ?? 100)
const KEYS = 3
/** Behind the wait for reports of a call that activates. */
const KILL_MS = Number(process.env['UPGRADE_KILL_MS'] ?? Math.floor(Math.random() * 60))
let dir: string
let cluster: LocalCluster
let next: TreeCopy

/** Starts the nodes of a new cluster, each from its build. */
async function openCluster(projects: readonly (string | undefined)[]): Promise<void> {
  dir = mkdtempSync(join(tmpdir(), 'tacit-upgrade-'))
  cluster = await LocalCluster.open(dir, SLOT_MS, (error) => console.error(error))
  for (const [at, number] of NODES.entries()) await cluster.replace(number, projects[at])
  await cluster.serving()
}
async function closeCluster(): Promise<void> {
  await cluster?.stop()
  rmSync(dir, { recursive: true, force: true })
}

const ORDER = { symbol: 'SOL-USDC', side: 'buy', amount: '1', price: '120', life_slots: 30_000 } as const

/** The venue's answer to each request, below the session, 0 for none; `at` a node of that epoch, 0 of one that followed. */
type Answered = { method: string; path: string; status: number; code: string; at: number; ms: number }

/** Sent again inside the session. */
const isOpen = ({ status, code }: Answered) => status === 0 || code === 'outcome_unknown'
/** The cancel was executed when it was sent before, and its answer was lost: the order is final by it. */
const isDone = ({ method, path, code }: Answered, all: readonly Answered[]) =>
  code === 'order_final' && all.some((one) => one.method === method && one.path === path && isOpen(one))

async function trader(answered: Answered[]) {
  const facts = cluster.facts(await cluster.serving())!
  const { client, credentials } = await openAccount({ facts } as never, 'upgrade')
  const wallet = new Wallet(crypto.getRandomValues(new Uint8Array(32)))
  for (let key = 1; key < KEYS; key++) wallet.tradingKeyText(key)
  const chain = await openChainAccess(facts.rpc_url, crypto.getRandomValues(new Uint8Array(32)))
  const funds = new Map([[USDC, 1_000_000_000n]])
  await fundTrader({ chain, wallet, client, keys: KEYS } as never, facts.program_id, funds, 6)
  const path = join(dir, 'upgrade.wallet')
  saveWallet(path, wallet)
  const seqs: number[] = []
  const ends: unknown[] = []
  const url = NODES.map((number) => `https://localhost:${new URL(cluster.urlOf(number)).port}`)
  const policy = parsePolicy(readFileSync(facts.policy, 'utf8'))
  const collateral = parseCollateral(readFileSync(facts.collateral, 'utf8'))
  const session = await Session.open({
    url,
    open_venue: async () => {
      const venue = await connect(url, policy, { collateral })
      return {
        ...venue,
        async fetch(path, init) {
          const at_ms = performance.now()
          const method = init?.method ?? 'GET'
          const at = venue.evidence.info.epoch
          const response = await venue.fetch(path, init).catch((error) => {
            answered.push({ method, path, status: 0, code: '', at, ms: performance.now() - at_ms })
            throw error
          })
          const { status } = response
          const { code = '' } = status < 400 ? {} : ((await response.clone().json()) as { code?: string })
          const ms = performance.now() - at_ms
          answered.push({ method, path, status, code, at, ms })
          return response
        },
      }
    },
    login: credentials,
    account_id: credentials.account_id,
    wallet: path,
    event: ({ seq }) => void seqs.push(seq),
    ended: (reason) => void ends.push(reason),
  })
  return { session, seqs, ends }
}

describe.skipIf(ETCD === undefined)('a rolling upgrade', () => {
  beforeAll(() => {
    next = nextBuild()
  }, LIMIT_MS)
  afterEach(closeCluster, LIMIT_MS)
  afterAll(() => next?.remove(), LIMIT_MS)

  test(
    'under load: a session trades through it without an error, and every answer proves true',
    async () => {
      await openCluster([])
      const answered: Answered[] = []
      const { session, seqs, ends } = await trader(answered)
      const [kept, cancelled]: string[][] = [[], []]
      const calls: { kind: string; ms: number; at_ms: number }[] = []
      let is_over = false
      const timed = async <T extends { status: string }>(kind: string, work: Promise<T>): Promise<T> => {
        const at_ms = performance.now()
        const outcome = await work
        calls.push({ kind, ms: performance.now() - at_ms, at_ms })
        expect(outcome).toMatchObject({ status: 'accepted' })
        return outcome
      }
      const trading = async (): Promise<void> => {
        while (!is_over) {
          const { id } = await timed('place', session.place(ORDER))
          if (kept!.length < KEYS) kept!.push(id)
          else {
            await timed('cancel', session.cancel(id))
            cancelled!.push(id)
          }
        }
      }
      const timer = async (): Promise<number> =>
        ((await session.deadMan(9_000, 0)) as { result: { expires_slot: number } }).result.expires_slot
      const lines: string[] = []
      const loads = Array.from({ length: KEYS }, trading)
      await Bun.sleep(2_000)
      const began_ms = performance.now()
      await cluster.upgrade(next.root, (line) => {
        lines.push(line)
        console.log(`${((performance.now() - began_ms) / 1_000).toFixed(1)} s: ${line}`)
      })
      await Bun.sleep(1_000)
      is_over = true
      await Promise.all(loads)
      expect(ends).toEqual([])
      expect(lines.map((line) => line.replace(/node \d/, 'a node'))).toEqual([
        'a node is replaced',
        'a node is replaced',
        `version ${NEXT_VERSION} is not carried by every node yet`,
        'a node is replaced',
        `version ${NEXT_VERSION} is in force`,
      ])
      for (const number of NODES)
        expect(await cluster.untilStatus(number, ({ version }) => version === NEXT_VERSION)).toMatchObject({
          carried: [FIRST_VERSION, NEXT_VERSION],
        })
      expect((await timer()) % NEXT_TIMER_SLOTS).toBe(0)
      const open = await session.client.orders({ status: 'open', limit: 200 })
      expect(open.items.map(({ order_id }) => order_id).toSorted()).toEqual(kept!.toSorted())
      for (const id of cancelled!)
        expect(await session.client.order(id)).toMatchObject({ status: 'cancelled' })
      // Of commands.
      const refused = answered.filter(({ method, status }) => method !== 'GET' && status >= 400)
      expect(refused.filter((one) => !isOpen(one) && !isDone(one, answered))).toEqual([])
      const worst = calls.toSorted((one, other) => other.ms - one.ms).slice(0, 3)
      console.log(
        `${calls.length} commands, ${cancelled!.length} cancels; worst ${JSON.stringify(worst)}; not accepted at first: ${JSON.stringify(refused)}`,
      )
      let gap_ms = 0
      const ends_ms = calls.map(({ at_ms, ms }) => at_ms + ms).toSorted((a, b) => a - b)
      for (const [at, end_ms] of ends_ms.entries())
        gap_ms = Math.max(gap_ms, end_ms - (ends_ms[at - 1] ?? end_ms))
      console.log(`longest time without an answer: ${gap_ms.toFixed(0)} ms`)
      session.close()
      expect(seqs).toEqual(seqs.map((_, at) => at + 1))
    },
    LIMIT_MS,
  )

  test(
    'reports that lie let a version be activated which a node does not carry: that node ends and says so, and no state differs',
    async () => {
      await openCluster([next.root, next.root])
      const log = await cluster.log()
      // Its reports count from here on: before, and where it is late by 2.5 s, the version is put in force without it.
      const status = await cluster.untilStatus(
        3,
        ({ role, lag_records, right }) => role === 'leading' || (lag_records === 0 && Boolean(right)),
      )
      expect(status).toMatchObject({ version: FIRST_VERSION, carried: [FIRST_VERSION] })
      /** By one of the others: the leading node's own build must carry it. */
      const activated = async () => {
        if ((await cluster.serving()) === 3) await cluster.replace(3)
        return cluster.activate(NEXT_VERSION).then(() => '', String)
      }
      for (
        let answer = await activated();
        !answer.includes('version_unsupported');
        answer = await activated()
      )
        expect(answer).not.toBe('')
      let is_over = false
      const lying = (async () => {
        while (!is_over)
          for (const [node, report] of await log.reports())
            await log.report(node, { ...report, newest: NEXT_VERSION })
      })()
      while ((await activated()) !== '') await Bun.sleep(0)
      is_over = true
      await lying
      const ended = () => readFileSync(join(cluster.dirOf(3), 'venue.log'), 'utf8')
      const said = `goes on in version ${NEXT_VERSION} of rules and formats, and this build carries ${FIRST_VERSION}`
      // It reads the log first, then its own disk: each start ends.
      while (ended().split(said).length < 4) await Bun.sleep(50)
      const leading = await cluster.serving()
      expect(leading).not.toBe(3)
      for (const number of [1, 2])
        await cluster.untilStatus(number, ({ version }) => version === NEXT_VERSION)
      // Its disk goes on under the build that carries the version.
      await cluster.kill(3)
      await cluster.replace(3, next.root)
      await cluster.untilStatus(3, ({ role, version }) => role === 'following' && version === NEXT_VERSION)
    },
    LIMIT_MS,
  )

  test(
    'a leading node that is killed while it activates: every node has the version, or none, and the call can be repeated',
    async () => {
      await openCluster([next.root, next.root, next.root])
      const leading = await cluster.serving()
      await Promise.all(NODES.map((number) => cluster.untilStatus(number, ({ version }) => version > 0)))
      const activating = cluster.activate(NEXT_VERSION).catch(() => undefined)
      await Bun.sleep(LIMITS.node_live_ms + KILL_MS)
      await cluster.kill(leading)
      await activating
      const second = await cluster.serving()
      const { version } = await cluster.untilStatus(second, ({ role }) => role === 'leading')
      console.log(`killed ${KILL_MS} ms behind the wait: version ${version}`)
      cluster.start(leading)
      const same = NODES.map((one) => cluster.untilStatus(one, (status) => status.version === version))
      await Promise.all(same)
      await cluster.activate(NEXT_VERSION)
      await Promise.all(
        NODES.map((one) => cluster.untilStatus(one, (status) => status.version === NEXT_VERSION)),
      )
    },
    LIMIT_MS,
  )
})
