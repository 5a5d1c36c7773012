/** Three server processes whose settings name one log: kill -9 of the leading one, and another serves. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Login } from '../../client/api/venue_client'
import { openChainAccess } from '../../client/chain/chain_access'
import { Session } from '../../client/session/session'
import { readPeer } from '../../client/verify/collect/pinned_transport'
import { parseCollateral } from '../../client/verify/tdx/collateral'
import { Wallet } from '../../client/wallet/wallet'
import { saveWallet } from '../../client/wallet/wallet_file'
import { fromHex } from '../../protocol/bytes'
import { publicKeyOf } from '../../protocol/sign'
import { ETCD } from '../../sandbox/cluster/etcd_cluster'
import { LocalCluster, NODES } from '../../sandbox/cluster/local_cluster'
import { USDC } from '../../sandbox/environment'
import {
  callOperator,
  DEFAULT_LIMITS,
  type OperatorTarget,
  signAdmission,
} from '../../tools/account/call_operator'
import { failure } from '../engine/journal/folder'
import { fundTrader, openAccount } from '../faults/kit/open_trader'

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

type NodeStatus = {
  role: string
  reasons: string[]
  lag_records: number
  right: Right | null
  ready: boolean
}
type Right = { epoch: number; seq: number }

type Asked = { method?: 'POST'; token?: string; body?: object }
function askNode(number: number, path: string, { method, token, body }: Asked): Promise<Response> {
  const headers = {
    ...(token && { authorization: `Bearer ${token}` }),
    ...(body && { 'content-type': 'application/json' }),
  }
  const init = { headers, ...(method && { method }), ...(body && { body: JSON.stringify(body) }) }
  return fetch(`${cluster.facts(number)!.url}${path}`, { ...init, tls: { rejectUnauthorized: false } })
}
async function tokenAt(number: number, { api_key, api_secret, passphrase }: Login): Promise<string> {
  const body = { api_key, api_secret, passphrase }
  const answer = await askNode(number, '/auth/token', { method: 'POST', body })
  return ((await answer.json()) as { access_token: string }).access_token
}

/** As the operator's listener of a node answers it; undefined while it does not. */
async function nodeStatus(number: number): Promise<NodeStatus | undefined> {
  const signal = AbortSignal.timeout(1_000)
  const tls = { rejectUnauthorized: false }
  return fetch(`${cluster.operatorUrlOf(number)}/system/status`, { tls, signal }).then(
    async (response) => (await response.json()) as NodeStatus,
    () => undefined,
  )
}

/** Resolves with the status once it is as expected. */
async function untilStatus(number: number, holds: (status: NodeStatus) => boolean): Promise<NodeStatus> {
  for (;;) {
    const status = await nodeStatus(number)
    if (status !== undefined && holds(status)) return status
    await Bun.sleep(20)
  }
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
    'each node that follows has a link to the leading one, and its right ends a second after that one is silent',
    async () => {
      const first = await serving()
      expect(await untilStatus(first, () => true)).toMatchObject({ role: 'leading' })
      const others = NODES.filter((one) => one !== first)
      const isLinked = ({ right }: NodeStatus) => right !== null
      const linked = await Promise.all(others.map((one) => untilStatus(one, isLinked)))
      for (const status of linked) {
        expect(status).toMatchObject({ role: 'following', ready: false })
        expect(status.reasons.join()).toStartWith('following: ')
        expect(status.right!.seq).toBeGreaterThan(0)
      }
      const { epoch } = linked[0]!.right!
      await Promise.all(others.map((one) => untilStatus(one, ({ lag_records }) => lag_records === 0)))
      const paused_ms = performance.now()
      cluster.pause(first)
      const second = await Promise.any(
        others.map(async (one) => {
          await untilStatus(one, ({ role, right }) => role === 'leading' || right === null)
          expect(performance.now() - paused_ms).toBeLessThan(2_500)
          await untilStatus(one, ({ role }) => role === 'leading')
          return one
        }),
      )
      const third = others.find((one) => one !== second)!
      const { right } = await untilStatus(third, (status) => (status.right?.epoch ?? 0) > epoch)
      expect(right!.epoch).toBe(epoch + 1)
      // It is deposed, ends, and follows the other one.
      cluster.resume(first)
      await untilStatus(first, (status) => status.role === 'following' && status.right?.epoch === epoch + 1)
    },
    LIMIT_MS,
  )

  test(
    'a node that follows passes the calls of its operator on to the leading one',
    async () => {
      const first = await serving()
      const other = NODES.find((one) => one !== first)!
      await untilStatus(other, ({ right }) => right !== null)
      const facts = cluster.facts(first)!
      const info = await fetch(`${facts.url}/info`, { tls: { rejectUnauthorized: false } })
      const { venue } = (await info.json()) as { venue: string }
      const operator_seed = fromHex(readFileSync(facts.operator_key, 'utf8').trim(), 32)!
      const targetOf = async (node: number): Promise<OperatorTarget> => {
        const url = cluster.operatorUrlOf(node)
        const ca = (await readPeer(new URL(url), 5_000)).leaf_pem
        return { url, venue: fromHex(venue, 32)!, operator_seed, ca }
      }
      const [leading, following] = [await targetOf(first), await targetOf(other)]
      let now_ms = Date.now()
      const list = async (target: OperatorTarget) =>
        callOperator(target, { method: 'GET', path: '/accounts', body: undefined }, ++now_ms)
      const account_key = publicKeyOf(crypto.getRandomValues(new Uint8Array(32)))
      const terms = { version: 1, state: 'active', limits: DEFAULT_LIMITS, account_key } as const
      const record = JSON.stringify(signAdmission(terms, following))
      const admit = { method: 'POST', path: '/accounts', body: record } as const
      const { account_id } = JSON.parse(await callOperator(following, admit, ++now_ms))
      expect(await list(leading)).toContain(account_id)
      expect(await list(following)).toBe(await list(leading))
      const foreign = { ...following, operator_seed: crypto.getRandomValues(new Uint8Array(32)) }
      expect(String(await failure(list(foreign)))).toContain('operator_signature_invalid')
      const metrics = { method: 'GET', path: '/metrics', body: undefined } as const
      const text = await callOperator(following, metrics, ++now_ms)
      expect(text).toMatch(/^tacit_node_lag_records [0-9]+$/m)
      expect(text).toMatch(/^tacit_node_right_ms [0-9]+$/m)
    },
    LIMIT_MS,
  )

  test(
    'kill -9 of the leading node: another one serves, from the same log, and the first follows again',
    async () => {
      const first = await serving()
      expect(await statusOf(first)).toMatchObject({ matching: 'running' })
      const log = await cluster.log()
      const before = await log.look()
      const { credentials } = await openAccount({ facts: cluster.facts(first)! } as never, 'tokens')
      const [kept, revoked] = [await tokenAt(first, credentials), await tokenAt(first, credentials)]
      const revoking = { method: 'POST', token: revoked } as const
      expect((await askNode(first, '/auth/token/revoke', revoking)).status).toBe(200)
      await cluster.kill(first)
      const second = await serving()
      // Tokens are in the log.
      expect((await askNode(second, '/orders', { token: kept })).status).toBe(200)
      expect((await askNode(second, '/orders', { token: revoked })).status).toBe(401)
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
    'a session that has the address of each node trades on when the leading one is killed, and when it hangs',
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
      // The stream's own login at another node may follow.
      while (seqs.length < items.length) await Bun.sleep(20)
      expect(seqs.slice(0, items.length)).toEqual(items.map(({ seq }) => seq))
      session.close()
      cluster.resume(second)
    },
    LIMIT_MS,
  )
})

test.skipIf(ETCD === undefined)(
  'a node that has a term, and whose chain does not answer, ends by one signal',
  async () => {
    const own = await LocalCluster.open(join(dir, 'hung'), 100, (error) => console.error(error))
    const { chain } = own as unknown as { chain: { url: string } }
    const { url } = chain
    let hangs = false
    const provider = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      idleTimeout: 0,
      fetch: async (request) =>
        hangs
          ? new Promise(() => undefined)
          : fetch(url, { method: 'POST', headers: request.headers, body: await request.arrayBuffer() }),
    })
    chain.url = provider.url.href
    const isFollowing = async (one: number) => Boolean((await own.statusOf(one))?.right)
    try {
      own.start(1)
      const first = await own.serving()
      own.start(2)
      while (!(await isFollowing(2))) await Bun.sleep(50)
      const log = await own.log()
      const { term } = await log.look()
      hangs = true
      await own.kill(first)
      while ((await log.look()).term!.number === term!.number) await Bun.sleep(20)
      const said = () => readFileSync(join(own.dirOf(2), 'venue.log'), 'utf8')
      while (!said().includes('slot_stalled')) await Bun.sleep(20)
      const at_ms = performance.now()
      expect(await own.replace(2)).toBe(0)
      expect(performance.now() - at_ms).toBeLessThan(20_000)
    } finally {
      await own.stop()
      await provider.stop(true)
    }
  },
  LIMIT_MS,
)
