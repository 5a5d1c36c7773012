/**
 * Measures the processor time of an order on the leading node and on the nodes that serve its clients: `bun bench/fronts.ts
 * [--notes N] [--rounds N] [--sockets N]`. Four processes over three members of etcd and one embedded chain; N notes back one
 * order each, placed on sockets of the leading node, then of one, two and three fronts, and cancelled between rounds. Processor
 * time without orders is subtracted. Last, sockets of one front get every event of these orders.
 */

import { readFileSync } from 'node:fs'
import { type Login, VenueClient } from '../client/api/venue_client'
import { airdrop, deposit, mintTo, openChainAccess } from '../client/chain/index'
import { prepareCancelAll, preparePlace, Wallet } from '../client/index'
import { newCredential } from '../client/wallet/account'
import { fromHex } from '../protocol/bytes'
import { publicKeyOf } from '../protocol/sign'
import { LocalCluster } from '../sandbox/cluster/local_cluster'
import { callOperator, signAdmission } from '../tools/account/call_operator'
import { type Figure, inFolder, median, numbers, report } from './kit/figures'

const { notes, rounds, sockets } = numbers({ notes: 96, rounds: 12, sockets: 48 })
const NODES = [1, 2, 3, 4]
const KEYS = 8
const SLOT_MS = 200
const LAMPORTS = 5_000_000_000n
const NOTE = 50_000_000n
const TERMS = { side: 'buy', amount: 100_000_000n, price_limit: 90_000_000n } as const
const LIMITS = {
  rate_capacity: 100_000,
  rate_refill_per_s: 10_000,
  orders_live_max: 10_000,
  keys_max: 10_000,
}
const IDLE_MS = 4_000
/** After the answers, for the replicas; and for cancels of a closed batch. */
const AFTER_MS = 400
const CANCELLED_MS = 12 * SLOT_MS
const tls = { rejectUnauthorized: false }

async function until<T>(look: () => Promise<T | undefined | false> | T | undefined | false): Promise<T> {
  for (;;) {
    const found = await look()
    if (found) return found
    await Bun.sleep(20)
  }
}

/** Processor milliseconds of a process, in ticks of 10 ms: of the fields behind its name the 12th and 13th. */
function cpuMs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ')
  return 10 * (Number(fields[11]) + Number(fields[12]))
}

/** One socket with the replies that its frames wait for. */
class Lane {
  private readonly waiting = new Map<string, PromiseWithResolvers<unknown>>()
  events = 0
  private count = 0

  private constructor(private readonly socket: WebSocket) {
    socket.onmessage = ({ data }) => {
      const { type, id, ...rest } = JSON.parse(String(data))
      if (type === 'event') this.events += 1
      if (type === 'reply') this.waiting.get(id)?.resolve(rest.result)
      if (type === 'error') this.waiting.get(id)?.reject(new Error(rest.code))
    }
  }

  static async open(url: string, stream: string, token: string): Promise<Lane> {
    const options = { tls } as unknown as string
    const socket = new WebSocket(`${url.replace('http', 'ws')}/ws/${stream}?token=${token}`, options)
    const opened = Promise.withResolvers<void>()
    socket.onopen = () => opened.resolve()
    socket.onclose = () => opened.reject(new Error('closed'))
    await opened.promise
    return new Lane(socket)
  }

  ask(op: string, params: unknown): Promise<unknown> {
    const id = `${++this.count}`
    const settle = Promise.withResolvers<unknown>()
    this.waiting.set(id, settle)
    this.socket.send(JSON.stringify({ op, id, params }))
    return settle.promise.finally(() => this.waiting.delete(id))
  }

  close(): void {
    this.socket.close()
  }
}

class Trial {
  readonly wallet = new Wallet(crypto.getRandomValues(new Uint8Array(32)))
  private venue = new Uint8Array(32)
  private login!: Login
  private opened = false
  private token: string | undefined
  leads = 0
  fronts: number[] = []

  constructor(private readonly cluster: LocalCluster) {}

  clientOf(node: number): VenueClient {
    const base_url = this.cluster.urlOf(node)
    const transport = {
      base_url,
      fetch: (path: string, init?: RequestInit) => fetch(base_url + path, { ...init, tls }),
      webSocket: () => {
        throw new Error('lanes are used')
      },
    }
    return new VenueClient(transport, this.login)
  }

  /** With a funded note for each order. */
  async open(): Promise<void> {
    const { cluster, wallet } = this
    for (const number of NODES) cluster.start(number)
    const roles = () => Promise.all(NODES.map(async (one) => (await cluster.statusOf(one))?.role))
    await until(async () => (await roles()).every((role) => role !== undefined))
    this.leads = await until(() => NODES.find((one) => cluster.stateOf(one) === 'serves'))
    this.fronts = NODES.filter((one) => one !== this.leads)
    const isReady = (one: number) =>
      this.clientOf(one)
        .status()
        .catch(() => undefined)
    for (const one of NODES) await until(async () => (await isReady(one))?.ready)
    const facts = cluster.facts(this.leads)!
    const { venue } = await until(() =>
      this.clientOf(this.leads)
        .info()
        .catch(() => undefined),
    )
    this.venue = new Uint8Array(fromHex(venue, 32)!)
    await this.admit(facts)
    const client = this.clientOf(this.leads)
    const instrument = await client.instrument('SOL-USDC')
    const chain = await openChainAccess(facts.rpc_url, crypto.getRandomValues(new Uint8Array(32)))
    await airdrop(chain, LAMPORTS)
    const mint = instrument.quote_mint
    await mintTo(chain, mint, NOTE * BigInt(notes))
    await Bun.sleep(10 * SLOT_MS)
    const { program_id } = facts
    const depositing = Array.from({ length: KEYS }, async (_, key_index) => {
      for (let at = key_index; at < notes; at += KEYS)
        await deposit(chain, wallet, { program_id, mint, amount: NOTE, key_index })
    })
    await Promise.all(depositing)
    const unseen = new Set(wallet.state.notes.map(({ commitment }) => commitment))
    await until(async () => {
      for (const commitment of unseen) {
        const proof = await client.inclusion({ commitment }).catch(() => undefined)
        if (proof?.usable !== true) return false
        unseen.delete(commitment)
      }
      return true
    })
  }

  private async admit({
    operator_url,
    operator_key,
    certificate,
  }: Record<'operator_url' | 'operator_key' | 'certificate', string>) {
    const operator_seed = fromHex(readFileSync(operator_key, 'utf8').trim(), 32)!
    const target = {
      url: operator_url,
      venue: this.venue,
      operator_seed,
      ca: readFileSync(certificate, 'utf8'),
    }
    const seed = crypto.getRandomValues(new Uint8Array(32))
    const record = signAdmission(
      { account_key: publicKeyOf(seed), version: 1, state: 'active', limits: LIMITS },
      target,
    )
    const { request, login } = await newCredential(seed, this.venue, {
      kind: 'trade',
      version: 1,
      expiry_s: 0,
    })
    const post = (path: string, body: object, now_ms: number) =>
      callOperator(target, { method: 'POST', path, body: JSON.stringify(body) }, now_ms)
    await post('/accounts', record, Date.now())
    await post('/accounts/credentials', request, Date.now() + 1)
    this.login = login
  }

  async lanes(nodes: readonly number[], stream: string, count: number): Promise<Lane[]> {
    // A token works on each node.
    this.token ??= await this.clientOf(this.leads).token()
    return Promise.all(
      Array.from({ length: count }, (_, at) =>
        Lane.open(this.cluster.urlOf(nodes[at % nodes.length]!), stream, this.token!),
      ),
    )
  }

  /** Processor milliseconds per millisecond of each node, without orders. */
  async idle(): Promise<Map<number, number>> {
    const before = this.usage()
    await Bun.sleep(IDLE_MS)
    return new Map([...this.usage()].map(([node, ms]) => [node, (ms - before.get(node)!) / IDLE_MS]))
  }

  private usage(): Map<number, number> {
    return new Map(NODES.map((node) => [node, cpuMs(this.cluster.pidOf(node))]))
  }

  /** Microseconds of processor an order, of each node: the median of the rounds. */
  async measure(nodes: readonly number[]): Promise<{ us: Map<number, number>; per_second: number }> {
    const lanes = await this.lanes(nodes, 'trading', KEYS)
    const idle = await this.idle()
    const taken = new Map<number, number[]>(NODES.map((node) => [node, []]))
    const rates: number[] = []
    for (let round = -2; round < rounds; round++) {
      const { expiry_slot, instrument } = await this.terms()
      const orders = this.wallet.state.notes.map((note) => {
        const { opening, ...known } = preparePlace(
          this.wallet,
          this.venue,
          { ...TERMS, instrument, expiry_slot },
          note,
        )
        return { key: note.key_index, request: this.opened ? known : { ...known, opening } }
      })
      const before = this.usage()
      const began_ms = performance.now()
      await Promise.all(orders.map(({ key, request }) => lanes[key]!.ask('order.place', request)))
      const answered_ms = performance.now() - began_ms
      await Bun.sleep(AFTER_MS)
      const elapsed_ms = performance.now() - began_ms
      const after = this.usage()
      this.opened = true
      if (round >= 0) rates.push((1_000 * orders.length) / answered_ms)
      for (const [node, ms] of after)
        if (round >= 0)
          taken
            .get(node)!
            .push((1_000 * (ms - before.get(node)! - idle.get(node)! * elapsed_ms)) / orders.length)
      await this.cancelAll(lanes)
    }
    for (const lane of lanes) lane.close()
    return { us: new Map([...taken].map(([node, all]) => [node, median(all)])), per_second: median(rates) }
  }

  private async terms() {
    const client = this.clientOf(this.leads)
    return {
      expiry_slot: (await client.time()).slot + 100_000,
      instrument: await client.instrument('SOL-USDC'),
    }
  }

  private async cancelAll(lanes: readonly Lane[]): Promise<void> {
    await Promise.all(
      lanes.map((lane, key) => lane.ask('order.cancel_all', prepareCancelAll(this.wallet, this.venue, key))),
    )
    await Bun.sleep(CANCELLED_MS)
    this.wallet.state.orders.length = 0
    for (const note of this.wallet.state.notes) note.state = 'free'
  }
}

await inFolder('fronts', async (dir) => {
  const cluster = await LocalCluster.open(dir, SLOT_MS, (error) => console.error(error), {
    count: NODES.length,
  })
  try {
    const trial = new Trial(cluster)
    await trial.open()
    const figures: Figure[] = []
    const add = (figure: string, value: number, unit: string, beside?: string) =>
      figures.push({ figure, value, unit, ...(beside === undefined ? {} : { beside }) })
    const alone = await trial.measure([trial.leads])
    add('clients at the leading node: leading node', alone.us.get(trial.leads)!, 'us an order')
    add('the same: a node that follows', median(trial.fronts.map((one) => alone.us.get(one)!)), 'us an order')
    let front_us = 0
    for (const count of [1, 2, 3]) {
      const serving = trial.fronts.slice(0, count)
      const { us, per_second } = await trial.measure(serving)
      const leader_us = us.get(trial.leads)!
      const all_us = serving.reduce((sum, one) => sum + us.get(one)!, 0)
      const idle = trial.fronts.slice(count).map((one) => us.get(one)!)
      add(
        `clients at ${count} front(s): leading node`,
        leader_us,
        'us an order',
        `${Math.round(1e6 / leader_us)} orders/s of its core`,
      )
      add(
        `the same: all fronts together`,
        all_us,
        'us an order',
        `${Math.round(per_second)} orders/s answered`,
      )
      if (idle.length > 0)
        add('the same: replay alone, on a node without clients', median(idle), 'us an order')
      if (count === 1) front_us = all_us
      if (count === 1) add('fronts that one leading core feeds', front_us / leader_us, '')
    }
    const one = trial.fronts[0]!
    const quiet_us = (await trial.measure([one])).us.get(one)!
    const listening = await trial.lanes([one], 'orders', sockets)
    const { us } = await trial.measure([one])
    const events = listening[0]!.events / (notes * (rounds + 2))
    const event_us = (us.get(one)! - quiet_us) / (sockets * events)
    add(
      'an event to a socket of a front',
      event_us,
      'us',
      `${sockets} sockets, ${events.toFixed(1)} events an order`,
    )
    add('events a second of a front', 1e6 / event_us, '/s', 'of one core')
    for (const lane of listening) lane.close()
    report('fronts', figures)
  } finally {
    await cluster.stop()
  }
})
