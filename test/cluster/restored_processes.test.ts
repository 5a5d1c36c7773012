/** Three server processes that lost their disks and the log restore the venue from the chain, and serve its traders again. */

import { afterAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Login } from '../../client/api/venue_client'
import { openChainAccess } from '../../client/chain/chain_access'
import { Session } from '../../client/session/session'
import { parseCollateral } from '../../client/verify/tdx/collateral'
import { WalletOutdated } from '../../client/wallet/absorb'
import { Wallet } from '../../client/wallet/wallet'
import { saveWallet } from '../../client/wallet/wallet_file'
import { Etcd } from '../../engine/cluster/etcd'
import { makeGenesis } from '../../sandbox/chain/genesis'
import { type OpenedChain, openEmbeddedChain } from '../../sandbox/chain/open_embedded_chain'
import { ETCD } from '../../sandbox/cluster/etcd_cluster'
import { LocalCluster, NODES, PROJECT } from '../../sandbox/cluster/local_cluster'
import { USDC } from '../../sandbox/environment'
import type { SandboxFacts } from '../../sandbox/open_sandbox'
import { failure } from '../engine/journal/folder'
import { fundTrader, openAccount } from '../faults/kit/open_trader'
import { announceRestore } from '../kit/vault/open_vault'

const LIMIT_MS = 300_000
const dir = mkdtempSync(join(tmpdir(), 'tacit-restored-'))
const path = join(dir, 'trader.wallet')
const order = { symbol: 'SOL-USDC', side: 'buy', amount: '1', price: '120', life_slots: 9_000 } as const
let cluster: LocalCluster
let chain: OpenedChain

/** As `hostEmbeddedChain`, in this process, which moves its clock. */
async function hostHere({
  genesis,
  ...options
}: Parameters<typeof openEmbeddedChain>[0] & { genesis: Parameters<typeof makeGenesis>[1] }) {
  chain = await openEmbeddedChain(options)
  const program_id = await makeGenesis(chain, genesis)
  return { url: chain.url, program_id, close: () => chain.close() }
}

/** With the wallet that the trader has. */
function openSession({ policy, collateral }: SandboxFacts, credentials: Login): Promise<Session> {
  return Session.open({
    url: NODES.map((number) => `https://localhost:${new URL(cluster.urlOf(number)).port}`),
    policy: readFileSync(policy, 'utf8'),
    login: credentials,
    account_id: credentials.account_id,
    wallet: path,
    connect: { collateral: parseCollateral(readFileSync(collateral, 'utf8')) },
    patience_ms: LIMIT_MS,
  })
}

/** As a trader does. Resolves with the exit code, and with what the command says. */
async function syncWallet({ rpc_url, program_id }: SandboxFacts): Promise<[number, string]> {
  const options = ['--wallet', path, '--rpc', rpc_url, '--program', program_id]
  const command = [process.execPath, join(PROJECT, 'client/cli/tacit.ts'), 'wallet', 'sync', ...options]
  const { exited, stdout, stderr } = Bun.spawn(command, { stdout: 'pipe', stderr: 'pipe' })
  const said = await Promise.all([stdout, stderr].map((stream) => new Response(stream).text()))
  return [await exited, said.join('')]
}

async function loseEverything(): Promise<void> {
  for (const number of NODES) {
    await cluster.kill(number)
    rmSync(cluster.dirOf(number), { recursive: true })
  }
  const { endpoints, tls } = cluster.etcd
  await new Etcd({ endpoints, tls }).txn([], [{ remove: 'tacit/', to: 'tacit/~' }])
}

describe.skipIf(ETCD === undefined)('three processes on empty disks', () => {
  afterAll(async () => {
    await cluster?.stop()
    rmSync(dir, { recursive: true, force: true })
  }, LIMIT_MS)

  test(
    'restore the venue once the admin has announced it, link, admit its traders again, and go on when the leading one is killed',
    async () => {
      cluster = await LocalCluster.open(dir, 100, (error) => console.error(error), { host: hostHere })
      for (const number of NODES) cluster.start(number)
      const facts = cluster.facts(await cluster.serving())!
      const { client, credentials } = await openAccount({ facts } as never, 'trader')
      const wallet = new Wallet(crypto.getRandomValues(new Uint8Array(32)))
      const access = await openChainAccess(facts.rpc_url, crypto.getRandomValues(new Uint8Array(32)))
      const funds = new Map([[USDC, 1_000_000_000n]])
      await fundTrader({ chain: access, wallet, client, keys: 1 } as never, facts.program_id, funds, 1)
      saveWallet(path, wallet)
      const before = await openSession(facts, credentials)
      await before.place(order)
      const { venue, generation } = await before.client.info()
      expect(generation).toBe(0)
      before.close()

      await loseEverything()
      chain.warpTime(await announceRestore(chain))
      for (const number of NODES) cluster.start(number)
      const first = await cluster.serving()
      const others = NODES.filter((one) => one !== first)
      for (const other of others) await cluster.untilStatus(other, ({ right }) => Boolean(right))
      const { credentials: again } = await openAccount({ facts: cluster.facts(first)! } as never, 'trader')
      const outdated = await failure(openSession(cluster.facts(first)!, again))
      expect(outdated).toBeInstanceOf(WalletOutdated)
      expect(await syncWallet(facts)).toEqual([0, expect.stringContaining('0 found spent')])
      const after = await openSession(cluster.facts(first)!, again)
      const info = await after.client.info()
      expect(info.generation).toBe(1)
      expect(info.venue).not.toBe(venue)
      const { id } = await after.place(order)
      await cluster.kill(first)
      expect(await cluster.serving()).not.toBe(first)
      const { items } = await after.client.orders({ status: 'open' })
      expect(items.map(({ order_id }) => order_id)).toEqual([id])
      after.close()
      // A node that shows an earlier generation is behind: nothing of the wallet is given up for it.
      const kept = JSON.parse(readFileSync(path, 'utf8'))
      writeFileSync(path, JSON.stringify({ ...kept, state: { ...kept.state, generation: 2 } }))
      expect(await syncWallet(facts)).toEqual([1, expect.stringContaining('the history lacks the restore')])
      const said = NODES.map((number) => readFileSync(join(cluster.dirOf(number), 'venue.log'), 'utf8'))
      expect(said.join()).toContain('the venue was restored from the chain')
    },
    LIMIT_MS,
  )
})
