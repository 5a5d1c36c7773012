/** Three server processes over one log: clients of the nodes that follow trade, read and stream as at the leading one. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Login, type Transport, VenueClient, VenueProblem } from '../../client/api/venue_client'
import { openChainAccess } from '../../client/chain/chain_access'
import { connect } from '../../client/connect'
import { Session } from '../../client/session/session'
import { parsePolicy } from '../../client/verify/policy'
import { parseCollateral } from '../../client/verify/tdx/collateral'
import { preparePlace } from '../../client/wallet/prepare'
import { saveWallet } from '../../client/wallet/wallet_file'
import { LIMITS } from '../../engine/limits'
import { toHex } from '../../protocol/bytes'
import type { PlaceResult } from '../../protocol/wire/trading'
import { ETCD } from '../../sandbox/cluster/etcd_cluster'
import { LocalCluster, NODES } from '../../sandbox/cluster/local_cluster'
import { SOL } from '../../sandbox/environment'
import { LoadTrader } from '../faults/kit/load_trader'
import { fundTrader, openAccount } from '../faults/kit/open_trader'

const LIMIT_MS = 300_000
const dir = mkdtempSync(join(tmpdir(), 'tacit-fronts-'))
let cluster: LocalCluster
type Node = (typeof NODES)[number]

/** TLS is judged elsewhere. */
const tls = { rejectUnauthorized: false }
function transportOf(node: number): Transport {
  const base_url = cluster.urlOf(node)
  return {
    base_url,
    fetch: (path, init) => fetch(base_url + path, { ...init, tls }),
    webSocket: (path) => new WebSocket(base_url.replace('http', 'ws') + path, { tls } as unknown as string),
  }
}

type Asked = { method?: string; token?: string; headers?: Record<string, string>; body?: object }
async function ask(node: number, path: string, { token, headers, body, method }: Asked = {}) {
  const all = { ...headers, ...(token && { authorization: `Bearer ${token}` }) }
  const init = { headers: all, ...(method && { method }), ...(body && { body: JSON.stringify(body) }) }
  const answer = await transportOf(node)
    .fetch(path, init)
    .catch(() => undefined)
  return { status: answer?.status ?? 0, body: ((await answer?.json()) ?? {}) as Record<string, unknown> }
}

/** On a busy machine a right ends now and then; its node serves again. */
const served = (node: number, path: string, asked?: Asked) =>
  until(async () => {
    const answer = await ask(node, path, asked)
    return answer.status !== 503 && answer
  })

function restingOrder({ instrument, slot, venue, wallet }: LoadTrader) {
  const note = wallet.noteFor(SOL, 1_000_000_000n)!
  const expiry_slot = slot + 100_000
  const terms = { instrument, side: 'sell', amount: 1_234_000_000n, price_limit: 155_321_000n } as const
  return preparePlace(wallet, venue, { ...terms, expiry_slot }, note)
}

/** The same bytes again until they are accepted, as a client sends them. */
async function rest(trader: LoadTrader): Promise<{ result: PlaceResult }> {
  const request = restingOrder(trader)
  const place = async (): Promise<PlaceResult | undefined> => {
    try {
      return await trader.client.place(request)
    } catch (error) {
      if (!(error instanceof VenueProblem)) throw error
      if (error.code === 'order_exists') return error.problem['result'] as PlaceResult
      expect(['lease_lost', 'outcome_unknown', 'reopening']).toContain(error.code)
      return undefined
    }
  }
  return { result: await until(place) }
}

async function until<T>(look: () => Promise<T | undefined | false> | T | undefined | false): Promise<T> {
  for (;;) {
    const found = await look()
    if (found) return found
    await Bun.sleep(20)
  }
}

/** The leading node, and the ones that follow and serve. */
async function nodes(): Promise<{ leads: Node; fronts: Node[] }> {
  const leads = await until(() => NODES.find((one) => cluster.stateOf(one) === 'serves'))
  const fronts = NODES.filter((one) => one !== leads && cluster.stateOf(one) === 'follows')
  for (const one of fronts) await until(async () => (await ask(one, '/system/status')).body['ready'] === true)
  return { leads, fronts }
}

async function traderAt(node: number, name: string): Promise<{ trader: LoadTrader; credentials: Login }> {
  const { leads } = await nodes()
  const facts = cluster.facts(leads)!
  const { credentials } = await openAccount({ facts } as never, name)
  const chain = await openChainAccess(facts.rpc_url, crypto.getRandomValues(new Uint8Array(32)))
  const trader = new LoadTrader(name, 1, new VenueClient(transportOf(node), credentials), chain)
  await until(() =>
    trader.connect().then(
      () => true,
      () => false,
    ),
  )
  await fundTrader(trader, facts.program_id, new Map([[SOL, 20_000_000_000n]]), 6)
  return { trader, credentials }
}

async function tokenAt(node: number, { api_key, api_secret, passphrase }: Login): Promise<string> {
  const body = { api_key, api_secret, passphrase }
  const headers = { 'content-type': 'application/json' }
  const answer = await served(node, '/auth/token', { method: 'POST', headers, body })
  expect(answer.status).toBe(200)
  return answer.body['access_token'] as string
}

async function socketAt(node: Node, token: string) {
  const frames: string[] = []
  const socket = transportOf(node).webSocket(`/ws/trading?token=${token}`)
  const closed = new Promise<number>((resolve) => {
    socket.onclose = ({ code }) => resolve(code)
  })
  socket.onmessage = ({ data }) => frames.push(String(data))
  await until(() => frames.length > 0)
  const call = (id: string, op: string, params: object): Promise<string> => {
    socket.send(JSON.stringify({ id, op, params }))
    return until(() => frames.find((one) => one.includes(`"id":"${id}"`)))
  }
  const arm = async () => expect(await call('a', 'cancel_on_disconnect', { armed: true })).toContain('true')
  return { frames, closed, call, arm }
}

/** An order on an armed socket. */
async function armedOrderAt(node: Node, trader: LoadTrader, token: string) {
  const { frames, closed, call, arm } = await socketAt(node, token)
  await arm()
  const request = restingOrder(trader)
  expect(await call('p', 'order.place', request)).toContain('"accepted"')
  return { frames, closed, order_id: request.order_id }
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
    "a client's commands are there when it asks the same front, and another by the seq of its receipt",
    async () => {
      const { leads, fronts } = await nodes()
      expect(fronts).toHaveLength(2)
      const [near, far] = fronts as [Node, Node]
      const { trader, credentials } = await traderAt(near, 'reader')
      const tokens = new Map<number, string>()
      for (const node of NODES) tokens.set(node, await tokenAt(node, credentials))
      for (let round = 0; round < 3; round++) {
        const { result } = await rest(trader)
        expect(result.receipt.epoch).toBeGreaterThan(0)
        const path = `/orders/${result.order_id}`
        // Each token works on each node, whichever gave it.
        const asked = await served(near, path, { token: tokens.get(leads)! })
        expect(asked).toMatchObject({ status: 200, body: { order_id: result.order_id } })
        const headers = { 'x-seen-seq': String(result.receipt.seq) }
        expect(await served(far, path, { token: tokens.get(near)!, headers })).toMatchObject({ status: 200 })
        expect(await served(leads, path, { token: tokens.get(far)! })).toMatchObject({ status: 200 })
      }
      const list = await Promise.all(
        NODES.map((node) => served(node, '/events', { token: tokens.get(node)! })),
      )
      expect(list[1]!.body).toEqual(list[0]!.body)
      expect(list[2]!.body).toEqual(list[0]!.body)
      const { items } = list[0]!.body as { items: { seq: number }[] }
      expect(items.map(({ seq }) => seq)).toEqual(items.map((_, at) => at + 1))
      await until(() => trader.trading.seq === items.length)
      expect(trader.faults).toEqual([])
      trader.close()
    },
    LIMIT_MS,
  )

  test(
    'a token that is revoked at one node is refused by every node once that is answered, and its sockets are closed',
    async () => {
      const { leads, fronts } = await nodes()
      const { credentials } = await openAccount({ facts: cluster.facts(leads)! } as never, 'revoker')
      for (const at of [...fronts, leads]) {
        const [revoked, kept] = [await tokenAt(leads, credentials), await tokenAt(at, credentials)]
        const sockets = NODES.map((node) => transportOf(node).webSocket(`/ws/orders?token=${revoked}`))
        const closed = sockets.map(
          (socket) =>
            new Promise<number>((resolve) => {
              socket.onclose = ({ code }) => resolve(code)
            }),
        )
        // One that opens later is rejected, not closed.
        const isOpen = ({ readyState }: WebSocket) => readyState === WebSocket.OPEN
        await until(() => sockets.every(isOpen))
        for (const node of NODES) expect((await served(node, '/orders', { token: revoked })).status).toBe(200)
        const began_ms = performance.now()
        const answer = await ask(at, '/auth/token/revoke', { method: 'POST', token: revoked })
        expect(answer).toEqual({ status: 200, body: { revoked: true } })
        expect(performance.now() - began_ms).toBeLessThan(2_000)
        const all = await Promise.all(NODES.map((node) => served(node, '/orders', { token: revoked })))
        expect(all.map(({ body }) => body['code'])).toEqual(all.map(() => 'token_revoked'))
        for (const node of NODES) expect((await served(node, '/orders', { token: kept })).status).toBe(200)
        expect(await Promise.all(closed)).toEqual(closed.map(() => 4401))
      }
    },
    LIMIT_MS,
  )

  test(
    'a planned end answers requests under way, disarms sockets and says bye; after a death an account that arms at another node keeps its orders',
    async () => {
      const before = await nodes()
      const planned = before.fronts[0]!
      const { trader: leaver, credentials } = await traderAt(planned, 'leaver')
      const token = await tokenAt(before.leads, credentials)
      const left = await armedOrderAt(planned, leaver, token)
      let is_over = false
      const answers = new Set<unknown>()
      const logins = (async () => {
        const { api_key, api_secret, passphrase } = credentials
        const headers = { 'content-type': 'application/json' }
        const body = { api_key, api_secret, passphrase }
        while (!is_over) {
          const answer = await ask(planned, '/auth/token', { method: 'POST', headers, body })
          answers.add(answer.body['code'] ?? answer.status)
        }
      })()
      expect(await cluster.replace(planned)).toBe(0)
      is_over = true
      await logins
      // 0: it took no connection.
      for (const one of answers) expect<unknown[]>([200, 0, 'outcome_unknown']).toContain(one)
      const led = await armedOrderAt(before.leads, leaver, token)
      expect(await cluster.replace(before.leads)).toBe(0)
      for (const { closed, frames } of [left, led]) {
        expect(await closed).toBe(1012)
        expect(frames.at(-1)).toContain('"type":"bye","reason":"upgrade"')
      }
      leaver.close()

      const { leads, fronts } = await nodes()
      const dying = fronts[0]!
      const { trader, credentials: login } = await traderAt(dying, 'stays')
      const [token_there, token_here] = [await tokenAt(dying, login), await tokenAt(leads, login)]
      const kept = await armedOrderAt(dying, trader, token_there)
      cluster.pause(dying)
      const dead_ms = performance.now()
      // Sooner than the leading node knows it.
      await Bun.sleep(2_000)
      await (await socketAt(leads, token_here)).arm()
      while (performance.now() - dead_ms < LIMITS.disconnect_grace_ms + 10_000) {
        for (const [one, with_token] of [
          [left, token],
          [led, token],
          [kept, token_here],
        ] as const)
          expect(await served(leads, `/orders/${one.order_id}`, { token: with_token })).toMatchObject({
            body: { status: 'accepted' },
          })
        await Bun.sleep(1_000)
      }
      cluster.resume(dying)
      trader.close()
      await nodes()
    },
    LIMIT_MS,
  )

  test(
    'a second signal ends at once a front that cannot answer requests under way',
    async () => {
      const { leads, fronts } = await nodes()
      const { credentials } = await openAccount({ facts: cluster.facts(leads)! } as never, 'signals')
      const { arm } = await socketAt(fronts[0]!, await tokenAt(fronts[0]!, credentials))
      await arm()
      cluster.pause(leads)
      const ended = cluster.replace(fronts[0]!)
      await Bun.sleep(300)
      const at_ms = performance.now()
      process.kill(cluster.pidOf(fronts[0]!), 'SIGTERM')
      expect(await ended).toBe(1)
      expect(performance.now() - at_ms).toBeLessThan(1_000)
      cluster.resume(leads)
      await nodes()
    },
    LIMIT_MS,
  )

  test(
    'a front without word from the leading node answers nothing of an account by its word a second later, and goes on with the next one',
    async () => {
      const { leads, fronts } = await nodes()
      const { credentials } = await openAccount({ facts: cluster.facts(leads)! } as never, 'waiter')
      const token = await tokenAt(fronts[0]!, credentials)
      const { epoch } = (await ask(leads, '/info')).body
      cluster.pause(leads)
      await Bun.sleep(1_050)
      const headers = { 'x-leader-epoch': String(epoch) }
      const [judged, any] = await Promise.all(
        [headers, {}].map((one) =>
          Promise.all(fronts.map((node) => ask(node, '/orders', { token, headers: one }))),
        ),
      )
      for (const { status, body } of judged!) expect([status, body['code']]).toEqual([503, 'lease_lost'])
      // They waited for the next leading node.
      for (const { status } of any!) expect(status).toBe(200)
      await until(() => fronts.some((one) => cluster.stateOf(one) === 'serves'))
      cluster.resume(leads)
      await until(async () => (await ask(leads, '/orders', { token })).status === 200)
    },
    LIMIT_MS,
  )

  const killed = (leads: Node) => cluster.kill(leads).then(() => cluster.start(leads))
  test.each([
    ['is killed', killed, 0],
    ['hands over', (leads: Node) => cluster.replace(leads), 0],
    // More than a node can make quotes for, one by one.
    ['is killed, beside strangers', killed, 20],
  ])(
    'a session with the address of one front verifies it and the leading node, and trades on when that one %s',
    async (how, end, strangers) => {
      const { leads, fronts } = await nodes()
      const front = fronts[0]!
      const facts = cluster.facts(leads)!
      const { trader, credentials } = await traderAt(front, `verifier, ${how}`)
      const url = `https://localhost:${new URL(cluster.urlOf(front)).port}`
      const policy = parsePolicy(readFileSync(facts.policy, 'utf8'))
      const options = { collateral: parseCollateral(readFileSync(facts.collateral, 'utf8')) }
      const { evidence, info } = await connect(url, policy, options)
      expect([evidence.info.epoch, evidence.leader!.info]).toEqual([0, info])
      expect(info.tee_pubkey).not.toBe(evidence.info.tee_pubkey)
      const path = join(dir, `front ${how}.wallet`)
      saveWallet(path, trader.wallet)
      trader.close()
      const refused: string[] = []
      const session = await Session.open({
        url,
        open_venue: async () => {
          const venue = await connect(url, policy, options)
          const asked = async (path: string, init?: RequestInit) => {
            const answer = await venue.fetch(path, init)
            const is_command = init?.method !== undefined && init.method !== 'GET'
            if (is_command && answer.status >= 400)
              refused.push(((await answer.clone().json()) as { code: string }).code)
            return answer
          }
          return { ...venue, fetch: asked }
        },
        login: credentials,
        account_id: credentials.account_id,
        wallet: path,
        patience_ms: LIMIT_MS,
      })
      const trade = async () => {
        const order = { symbol: 'SOL-USDC', side: 'sell', amount: '1', price: '156' } as const
        const outcome = await session.place({ ...order, life_slots: 9_000 })
        if (outcome.status !== 'accepted') throw new Error(JSON.stringify(outcome))
        expect(await session.client.order(outcome.id)).toMatchObject({ order_id: outcome.id })
        expect(await session.cancel(outcome.id)).toMatchObject({ status: 'accepted' })
        return outcome.receipt!.epoch
      }
      expect(await trade()).toBe(info.epoch)
      const flood = setInterval(() => {
        const nonce = toHex(crypto.getRandomValues(new Uint8Array(32)))
        for (let one = 0; one < strangers / 20; one += 1)
          for (const path of ['attestation?nonce', 'attestation?reportData', 'attestation/leader?nonce'])
            void ask(front, `/${path}=${nonce}`)
      }, 50)
      await Bun.sleep(strangers === 0 ? 0 : 5_000)
      const begun_ms = performance.now()
      const ended = end(leads)
      while ((await trade()) === info.epoch);
      clearInterval(flood)
      if (strangers > 0) expect(performance.now() - begun_ms).toBeLessThan(30_000)
      await ended
      // On a busy machine a right ends now and then; the draining is of the other node.
      expect(refused).not.toContain('draining')
      session.close()
      await nodes()
    },
    LIMIT_MS,
  )

  test(
    'sockets on fronts go on from the same seq when the leading node is killed, on the one that leads then, too',
    async () => {
      const { leads, fronts } = await nodes()
      const traders = await Promise.all(fronts.map((node) => traderAt(node, `kept-${node}`)))
      const placed: string[][] = traders.map(() => [])
      const place = async (at: number) => {
        const { trader } = traders[at]!
        const { result } = await rest(trader)
        placed[at]!.push(result.order_id)
      }
      await Promise.all(traders.map((_, at) => place(at)))
      let closed = 0
      for (const { trader } of traders)
        for (const stream of trader.streams) stream['socket']!.addEventListener('close', () => void closed++)
      await cluster.kill(leads)
      for (const one of fronts)
        await until(async () => (await ask(one, '/system/status')).body['ready'] === true)
      await Promise.all(traders.map((_, at) => place(at)))
      for (const [at, { trader }] of traders.entries()) {
        const { items } = await trader.client.events()
        await until(() => trader.trading.seq === items.length)
        const seen = trader.trading.events.map(({ seq }) => seq)
        expect(seen).toEqual(items.map(({ seq }) => seq))
        for (const stream of trader.streams) expect(stream.faults).toEqual([])
        const { items: orders } = await trader.client.orders({ status: 'open' })
        expect(orders.map(({ order_id }) => order_id)).toEqual(expect.arrayContaining(placed[at]!))
      }
      expect(closed).toBe(0)
      cluster.start(leads)
      for (const { trader } of traders) trader.close()
      await nodes()
    },
    LIMIT_MS,
  )
})
