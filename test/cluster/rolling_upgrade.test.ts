/** A cluster of processes is replaced by the next build under load: no cancel is refused, no order lost (cluster.md "Upgrade"). */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openChainAccess } from '../../client/chain/chain_access'
import { connect } from '../../client/connect'
import { Session } from '../../client/session/session'
import { parsePolicy } from '../../client/verify/policy'
import { parseCollateral } from '../../client/verify/tdx/collateral_form'
import { Wallet } from '../../client/wallet/wallet'
import { saveWallet } from '../../client/wallet/wallet_file'
import { FIRST_VERSION } from '../../engine/machine/state/version'
import { ETCD } from '../../sandbox/cluster/etcd_cluster'
import { LocalCluster, NODES } from '../../sandbox/cluster/local_cluster'
import { fundTrader } from '../faults/kit/fund_trader'
import { openAccount } from '../faults/kit/open_account'
import { USDC } from '../faults/kit/open_trader'
import { NEXT_TIMER_SLOTS, NEXT_VERSION, nextBuild } from '../kit/next_build'
import type { TreeCopy } from '../mutate/copy_tree'

const LIMIT_MS = 300_000
const SLOT_MS = Number(process.env['TACIT_UPGRADE_SLOT_MS'] ?? 100)
const KEYS = 3
const dir = mkdtempSync(join(tmpdir(), 'tacit-upgrade-'))
let cluster: LocalCluster
let next: TreeCopy

const ORDER = { symbol: 'SOL-USDC', side: 'buy', amount: '1', price: '120', life_slots: 30_000 } as const

/** What the venue answered to each request, beneath what the session makes of it. */
type Answered = { method: string; path: string; status: number; ms: number; at_ms: number }

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
          const response = await venue.fetch(path, init)
          const { status } = response
          answered.push({ method: init?.method ?? 'GET', path, status, ms: performance.now() - at_ms, at_ms })
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
  beforeAll(async () => {
    next = nextBuild()
    cluster = await LocalCluster.open(dir, SLOT_MS, (error) => console.error(error))
    for (const number of NODES) cluster.start(number)
  }, LIMIT_MS)
  afterAll(async () => {
    await cluster?.stop()
    next?.remove()
    rmSync(dir, { recursive: true, force: true })
  }, LIMIT_MS)

  test(
    'under load: a session trades through it without an error, and what it was told is so',
    async () => {
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
        expect(await cluster.statusOf(number)).toMatchObject({
          version: NEXT_VERSION,
          carried: [FIRST_VERSION, NEXT_VERSION],
        })
      expect((await timer()) % NEXT_TIMER_SLOTS).toBe(0)
      const open = await session.client.orders({ status: 'open', limit: 200 })
      expect(open.items.map(({ order_id }) => order_id).toSorted()).toEqual(kept!.toSorted())
      for (const id of cancelled!)
        expect(await session.client.order(id)).toMatchObject({ status: 'cancelled' })
      const refused = answered.filter(({ method, status }) => method !== 'GET' && status >= 400)
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
    'a node of the build before does not start behind the activation and says so; its disk goes on under the next build',
    async () => {
      const leading = await cluster.serving()
      const node = NODES.find((one) => one !== leading)!
      const log = () => readFileSync(join(cluster.dirOf(node), 'venue.log'), 'utf8')
      const said = `goes on in version ${NEXT_VERSION} of rules and formats, and this build carries ${FIRST_VERSION}`
      expect(log()).not.toContain(said)
      await cluster.replace(node)
      // It reads its own disk first, then, of another disk, the log: each start ends.
      while (log().split(said).length < 3) await Bun.sleep(50)
      expect(cluster.stateOf(leading)).toBe('serves')
      await cluster.kill(node)
      await cluster.replace(node, next.root)
      expect(await cluster.untilStatus(node, ({ lag_records }) => lag_records === 0)).toMatchObject({
        role: 'following',
        version: NEXT_VERSION,
      })
    },
    LIMIT_MS,
  )
})
