/** Three server processes whose settings name one log: kill -9 of the leading one, and another serves. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openChainAccess } from '../../client/chain/chain_access'
import { Session } from '../../client/session/session'
import { parseCollateral } from '../../client/verify/tdx/collateral_form'
import { Wallet } from '../../client/wallet/wallet'
import { saveWallet } from '../../client/wallet/wallet_file'
import { ETCD } from '../../sandbox/cluster/etcd_cluster'
import { LocalCluster, NODES } from '../../sandbox/cluster/local_cluster'
import { fundTrader } from '../faults/kit/fund_trader'
import { openAccount } from '../faults/kit/open_account'
import { USDC } from '../faults/kit/open_trader'

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

  test(
    'a session that has the address of each node trades on when the leading one is killed, and when it stands still',
    async () => {
      const first = await serving()
      const facts = cluster.facts(first)!
      const { client, credentials } = await openAccount({ facts } as never, 'nodes')
      const wallet = new Wallet(crypto.getRandomValues(new Uint8Array(32)))
      const chain = await openChainAccess(facts.rpc_url, crypto.getRandomValues(new Uint8Array(32)))
      const funds = new Map([[USDC, 1_000_000_000n]])
      await fundTrader({ chain, wallet, client, keys: 1 } as never, facts.program_id, funds, 3)
      const path = join(dir, 'nodes.wallet')
      saveWallet(path, wallet)
      const seqs: number[] = []
      const session = await Session.open({
        url: NODES.map((number) => `https://localhost:${new URL(cluster.urlOf(number)).port}`),
        policy: readFileSync(facts.policy, 'utf8'),
        login: credentials,
        account_id: credentials.account_id,
        wallet: path,
        connect: { collateral: parseCollateral(readFileSync(facts.collateral, 'utf8')) },
        patience_ms: LIMIT_MS,
        event: ({ seq }) => void seqs.push(seq),
      })
      const placed: string[] = []
      const place = async () => {
        const order = { symbol: 'SOL-USDC', side: 'buy', amount: '1', price: '120' } as const
        const outcome = await session.place({ ...order, life_slots: 9_000 })
        expect(outcome).toMatchObject({ status: 'accepted', receipt: { epoch: expect.any(Number) } })
        placed.push(outcome.id)
      }
      await place()
      await cluster.kill(first)
      await place()
      const second = await serving()
      cluster.pause(second)
      await place()
      const third = await serving()
      expect(new Set([first, second, third]).size).toBe(3)
      const open = await session.client.orders({ status: 'open' })
      expect(open.items.map(({ order_id }) => order_id).toSorted()).toEqual(placed.toSorted())
      const { items } = await session.client.events()
      while (seqs.at(-1) !== items.at(-1)!.seq) await Bun.sleep(20)
      expect(seqs).toEqual(items.map(({ seq }) => seq))
      session.close()
      cluster.resume(second)
    },
    LIMIT_MS,
  )
})
