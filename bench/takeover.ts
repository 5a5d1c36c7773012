/**
 * Time from the death of a leading node to the next acknowledged order: `bun bench/takeover.ts [--rounds N] [--slot MS]`. Three
 * node processes over three members of etcd; each round kills the leading node by SIGKILL, then once more with the leading
 * member. Parts, as seen from outside: detection, until another node has the term; catch-up, until its boot record is appended;
 * opening, until the chain shows its epoch at confirmed; service, until it answers; order, until a login and an order are
 * answered.
 */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { airdrop, deposit, mintTo, openChainAccess } from '../client/chain/index'
import { preparePlace, Wallet } from '../client/index'
import { chainAddresses } from '../engine/chain/client/chain_client'
import { readConfigAndClock } from '../engine/chain/client/read_vault'
import { RpcPool } from '../engine/chain/client/rpc_pool'
import type { ReplicatedLog } from '../engine/cluster/replicated_log'
import { decodeBase58 } from '../protocol/base58'
import { fromHex } from '../protocol/bytes'
import type { Instrument } from '../protocol/wire/trading'
import { LocalCluster, NODES } from '../sandbox/cluster/local_cluster'
import { type Figure, inFolder, numbers, quantile, report } from './kit/figures'

const { rounds, slot } = numbers({ rounds: 10, slot: 400 })
const FAULTS = { node: 3_000, 'node and member': 4_000 } as const
type Fault = keyof typeof FAULTS
const PARTS = ['detection', 'catch-up', 'opening', 'service', 'order'] as const
type Part = (typeof PARTS)[number]
const LOOK_MS = 10
const LAMPORTS = 5_000_000_000n
const PRICE = 90_000_000n
const LOT_OF_ORDER = 100_000_000n
const NOTE = 50_000_000n

type Asked = { status: number; body: Record<string, unknown> }

/** Undefined while nothing listens. */
async function ask(url: string, body?: string, token?: string): Promise<Asked | undefined> {
  const headers = {
    'content-type': 'application/json',
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
  }
  const sent = body === undefined ? {} : { method: 'POST', body }
  try {
    const answer = await fetch(url, {
      ...sent,
      headers,
      tls: { rejectUnauthorized: false },
      keepalive: false,
    })
    return { status: answer.status, body: (await answer.json()) as Record<string, unknown> }
  } catch {
    return undefined
  }
}

async function until<T>(look: () => Promise<T | undefined> | T | undefined): Promise<T> {
  for (;;) {
    const found = await look()
    if (found !== undefined) return found
    await Bun.sleep(LOOK_MS)
  }
}

/** Taken from the first of them; the others are not read any more. */
async function untilAny<T>(looks: readonly (() => Promise<T | undefined>)[]): Promise<T> {
  let found: T | undefined
  const show = (one: T | undefined) => {
    found ??= one
    return found
  }
  return Promise.any(looks.map((look) => until(async () => found ?? show(await look()))))
}

class Trial {
  private constructor(
    readonly cluster: LocalCluster,
    readonly log: ReplicatedLog,
    /** Signed before the death. */
    readonly orders: string[],
    readonly login: string,
    readonly epoch: () => Promise<number>,
  ) {}

  /** With a note for each order. */
  static async open(cluster: LocalCluster, count: number): Promise<Trial> {
    for (const number of NODES) cluster.start(number)
    const leader = await until(() => NODES.find((one) => cluster.stateOf(one) === 'serves'))
    const { url, rpc_url, program_id } = cluster.facts(leader)!
    const read = async (path: string) => (await until(() => ask(`${url}${path}`))).body
    const instrument = (await read('/instruments/SOL-USDC')) as unknown as Instrument
    const venue = fromHex((await read('/info'))['venue'] as string, 32)!
    const expiry_slot = ((await read('/time'))['slot'] as number) + 100_000
    const chain = await openChainAccess(rpc_url, crypto.getRandomValues(new Uint8Array(32)))
    const wallet = new Wallet(crypto.getRandomValues(new Uint8Array(32)))
    await airdrop(chain, LAMPORTS)
    const mint = instrument.quote_mint
    await mintTo(chain, mint, NOTE * BigInt(count))
    await Bun.sleep(10 * slot)
    for (let at = 0; at < count; at++)
      await deposit(chain, wallet, { program_id, mint, amount: NOTE, key_index: 0 })
    const terms = { instrument, side: 'buy', amount: LOT_OF_ORDER, price_limit: PRICE, expiry_slot } as const
    const orders = wallet.state.notes.map((note) => JSON.stringify(preparePlace(wallet, venue, terms, note)))
    const file = join(cluster.dirOf(leader), 'demo-token-request.json')
    const login = await until(() => {
      try {
        return readFileSync(file, 'utf8')
      } catch {
        return undefined
      }
    })
    const rpc = new RpcPool([rpc_url], 2_000)
    const reader = { rpc, ...chainAddresses(decodeBase58(program_id, 32)!) }
    const epoch = async () => (await readConfigAndClock(reader, 'confirmed')).config.epoch
    return new Trial(cluster, await cluster.log(), orders, login, epoch)
  }

  /** Resolves with the node that acknowledges the next order. */
  async acknowledged(nodes: readonly (typeof NODES)[number][]): Promise<(typeof NODES)[number]> {
    const body = this.orders.shift()!
    return untilAny(
      nodes.map((number) => async () => {
        const url = this.cluster.urlOf(number)
        const token = (await ask(`${url}/auth/token`, this.login))?.body['access_token']
        if (typeof token !== 'string') return undefined
        const placed = await ask(`${url}/orders`, body, token)
        // An answer that was lost on the way is given again.
        return placed?.status === 202 || placed?.body['applied'] === 'yes' ? number : undefined
      }),
    )
  }

  /** Milliseconds of each part. */
  async round(fault: Fault, leader: (typeof NODES)[number]): Promise<Record<Part, number>> {
    const { cluster, log } = this
    const [before, epoch] = [await log.look(), await this.epoch()]
    const member = fault === 'node' ? undefined : await cluster.etcd.leader()
    const at: number[] = [performance.now()]
    await Promise.all([cluster.kill(leader), member === undefined ? undefined : cluster.etcd.kill(member)])
    const seen = <T>(look: () => Promise<T | undefined>) => until(look).then(() => performance.now())
    const others = NODES.filter((one) => one !== leader)
    const urls = others.map((one) => `${cluster.urlOf(one)}/health`)
    const served = untilAny(urls.map((url) => () => ask(url))).then(() => performance.now())
    const acknowledged = served.then(() => this.acknowledged(others)).then(() => performance.now())
    const steps = [
      seen(async () => ((await log.look()).term!.number > before.term!.number ? true : undefined)),
      seen(async () => {
        const { head, term } = await log.look()
        return term!.number > before.term!.number && head.seq > before.head.seq ? true : undefined
      }),
      seen(async () => ((await this.epoch()) > epoch ? true : undefined)),
      served,
      acknowledged,
    ]
    at.push(...(await Promise.all(steps)))
    if (member !== undefined) cluster.etcd.restart(member)
    cluster.start(leader)
    await this.untilFollowed()
    return Object.fromEntries(PARTS.map((part, i) => [part, at[i + 1]! - at[i]!])) as Record<Part, number>
  }

  /** Two nodes report their ends. */
  private async untilFollowed(): Promise<void> {
    await this.cluster.etcd.untilWritable()
    await until(async () => {
      const counts = await this.log.reports().catch(() => undefined)
      await Bun.sleep(1_500)
      const later = await this.log.reports().catch(() => undefined)
      if (counts === undefined || later === undefined) return undefined
      const live = [...later].filter(([node, { count }]) => count !== counts.get(node)?.count)
      return live.length >= NODES.length - 1 ? true : undefined
    })
  }
}

function figuresOf(fault: Fault, found: readonly Record<Part, number>[]): Figure[] {
  const totals = found.map((one) => PARTS.reduce((sum, part) => sum + one[part], 0))
  const beside = `${found.length} rounds, slots of ${slot} ms`
  return [
    ...PARTS.flatMap((part): Figure[] => {
      const ms = found.map((one) => one[part])
      return [0.5, 0.95].map((q) => ({
        figure: `${fault}: ${part}, p${100 * q}`,
        value: quantile(ms, q),
        unit: 'ms',
      }))
    }),
    { figure: `${fault}: next acknowledged order, p50`, value: quantile(totals, 0.5), unit: 'ms', beside },
    {
      figure: `${fault}: next acknowledged order, p95`,
      value: quantile(totals, 0.95),
      unit: 'ms',
      target: `<= ${FAULTS[fault]}`,
    },
    { figure: `${fault}: next acknowledged order, worst`, value: Math.max(...totals), unit: 'ms' },
  ]
}

await inFolder('takeover', async (dir) => {
  const cluster = await LocalCluster.open(join(dir, 'cluster'), slot, (error) => console.error(error.message))
  try {
    const trial = await Trial.open(cluster, 2 * rounds + 1)
    let leader = await trial.acknowledged(NODES)
    const figures: Figure[] = []
    for (const fault of Object.keys(FAULTS) as Fault[]) {
      const found: Record<Part, number>[] = []
      for (let at = 0; at < rounds; at++) {
        found.push(await trial.round(fault, leader))
        leader = (await until(() => NODES.find((one) => cluster.stateOf(one) === 'serves')))!
        console.log(
          `${fault}: ${PARTS.map((part) => `${part} ${Math.round(found.at(-1)![part])} ms`).join(', ')}`,
        )
      }
      figures.push(...figuresOf(fault, found))
    }
    report('takeover', figures)
  } finally {
    await cluster.stop()
  }
})
