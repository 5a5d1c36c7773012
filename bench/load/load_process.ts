/** Sends the load of a bench from a separate process, so that the venue's figures do not include the client. */
import { anchorPoolHash, PLACE_BODY } from '../../protocol/bodies/trading'
import { fromHex } from '../../protocol/bytes'
import { answerQuestions } from '../kit/child_process'
import { quantile, random } from '../kit/figures'
import {
  elementNamed,
  hexOf,
  KEYS,
  LOT,
  named,
  pairNamed,
  REFERENCE_TICKS,
  SYMBOL,
  TICK,
} from '../venue/bench_config'
import { sideOf } from '../venue/fund_notes'
import { type Answered, EventSockets, HttpsLanes, type Target } from './https_lanes'

type PlaceLoad = {
  /** Notes the venue was funded with, and the first and number of those to place on. */
  notes: number
  from: number
  count: number
  two_sided: boolean
  venue: string
  /** Of account `bench-i` at i. */
  tokens: string[]
  host: string
  expiry_slot: number
}

/** Anchors of one order, as the wallet makes them. */
const ANCHORS = 4

/**
 * Requests in one array of bytes: a full collection of the generator would stop it to mark a hundred thousand objects.
 */
class Requests {
  private bytes = Buffer.alloc(1 << 20)
  private readonly ends: number[] = [0]
  private sent = 0

  get length(): number {
    return this.ends.length - 1
  }

  get bytes_each(): number {
    return this.ends.at(-1)! / this.length
  }

  add(text: string): void {
    const from = this.ends.at(-1)!
    if (from + text.length > this.bytes.length)
      this.bytes = Buffer.concat([this.bytes], 2 * this.bytes.length + text.length)
    this.ends.push(from + this.bytes.write(text, from, 'latin1'))
  }

  /** The next `count`, in order. */
  take(count: number): Batch {
    const from = this.sent
    this.sent = Math.min(from + count, this.length)
    return {
      length: this.sent - from,
      at: (index) => this.bytes.subarray(this.ends[from + index], this.ends[from + index + 1]),
    }
  }
}
type Batch = { length: number; at: (index: number) => Buffer }

/** One request per note, in an order in which each key's nonces rise. */
function signedPlaces(load: PlaceLoad): Requests {
  const pairs = Array.from({ length: KEYS }, (_, at) => pairNamed(`key ${at}`))
  const anchors = Array.from({ length: ANCHORS }, (_, at) => elementNamed(`place anchor ${at}`))
  const anchor_pool_hash = anchorPoolHash(anchors)
  const first_nonce = Math.ceil(load.notes / KEYS) + 1
  const venue = fromHex(load.venue, 32)!
  const next = random(load.from + 1)
  const requests = new Requests()
  for (let index = load.from; index < load.from + load.count; index++) {
    const key = index % KEYS
    const pair = pairs[key]!
    const side = sideOf(index, load.two_sided)
    const ticks = ticksOf(load.two_sided, next())
    const order = {
      order_id: named(`order ${index}`, 16),
      symbol: SYMBOL,
      side,
      type: 'limit' as const,
      amount: LOT * BigInt(1 + (next() % 1_000)),
      price_limit: TICK * BigInt(ticks),
      nonce: BigInt(first_nonce + Math.floor(index / KEYS)),
      collateral_commitment: elementNamed(`note ${index}`),
    }
    const body = PLACE_BODY.encode({
      ...order,
      venue,
      trading_key: pair.public_key,
      min_fill: 0n,
      expiry_slot: BigInt(load.expiry_slot),
      anchor_pool_hash,
    })
    const text = JSON.stringify({
      ...order,
      order_id: hexOf(order.order_id),
      trading_key: pair.text,
      amount: String(order.amount),
      price_limit: String(order.price_limit),
      nonce: String(order.nonce),
      collateral_commitment: hexOf(order.collateral_commitment),
      expiry_slot: load.expiry_slot,
      continuation_anchors: anchors.map(hexOf),
      signature: hexOf(pair.sign(body)),
    })
    requests.add(postRequest('/orders', load.host, load.tokens[key % load.tokens.length]!, text))
  }
  return requests
}

/** Two-sided orders cross at the reference; else buys rest below it and nothing matches. */
function ticksOf(two_sided: boolean, dice: number): number {
  const away = dice % 2_000
  if (!two_sided) return REFERENCE_TICKS - 2_000 + away
  return REFERENCE_TICKS - 50 + (away % 100)
}

function postRequest(path: string, host: string, token: string, body: string): string {
  return (
    `POST ${path} HTTP/1.1\r\nhost: ${host}\r\nauthorization: Bearer ${token}\r\n` +
    `content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`
  )
}

function getRequest(path: string, host: string, token: string | undefined): string {
  const bearer = token === undefined ? '' : `authorization: Bearer ${token}\r\n`
  return `GET ${path} HTTP/1.1\r\nhost: ${host}\r\n${bearer}\r\n`
}

/** The answers of one load. */
class Tally {
  readonly latencies_ms: Float64Array
  /** The same from the moment of sending, without the generator's delay. */
  readonly since_sent_ms: Float64Array
  /** Open loop: the generator's delay after the planned moment. */
  readonly lateness_ms: Float64Array
  /** Answers by status. */
  readonly statuses: Record<string, number> = {}
  /** First body of an answer that was not a success. */
  failure: string | undefined
  answered = 0
  /** Of the last answer. */
  body_bytes = 0
  elapsed_ms = 0
  private readonly began = performance.now()
  private readonly finished = Promise.withResolvers<void>()

  constructor(private readonly count: number) {
    this.latencies_ms = new Float64Array(count)
    this.since_sent_ms = new Float64Array(count)
    this.lateness_ms = new Float64Array(count)
  }

  take({ status, body }: Answered, due_ms: number, sent_ms: number): void {
    const now_ms = performance.now()
    this.since_sent_ms[this.answered] = now_ms - sent_ms
    this.latencies_ms[this.answered++] = now_ms - due_ms
    this.body_bytes = body.length
    this.statuses[status] = (this.statuses[status] ?? 0) + 1
    if (status >= 300 || status === 0) this.failure ??= body
    if (this.answered === this.count) this.finished.resolve()
  }

  /** Resolves once every request is answered. */
  async complete(): Promise<this> {
    await this.finished.promise
    this.elapsed_ms = performance.now() - this.began
    return this
  }
}

/** Closed loop: every lane sends its next request when it has its answer, which gives the venue's maximum. */
async function closedLoop(lanes: HttpsLanes, requests: Batch): Promise<Tally> {
  const tally = new Tally(requests.length)
  let next = 0
  const send = () => {
    if (next === requests.length) return
    const sent_ms = performance.now()
    const went = lanes.send(requests.at(next), (answer) => {
      tally.take(answer, sent_ms, sent_ms)
      send()
    })
    if (went) next++
  }
  for (let lane = lanes.idle; lane > 0; lane--) send()
  return await tally.complete()
}

/**
 * Open loop: requests are due at random moments of the given mean rate, independent of the answers. Latency counts from
 * the moment a request was due, so it includes waiting for a free lane or a late timer (no coordinated omission).
 */
async function openLoop(lanes: HttpsLanes, requests: Batch, per_second: number): Promise<Tally> {
  const tally = new Tally(requests.length)
  const next = random(5)
  const due_ms = new Float64Array(requests.length)
  let at_ms = performance.now() + 5
  for (let at = 0; at < due_ms.length; at++) {
    at_ms += (-Math.log((next() + 1) / 2 ** 32) * 1_000) / per_second
    due_ms[at] = at_ms
  }
  let sent = 0
  const sendDue = () => {
    const now_ms = performance.now()
    while (sent < requests.length && due_ms[sent]! <= now_ms) {
      const since_ms = due_ms[sent]!
      const sent_ms = performance.now()
      if (
        !lanes.send(requests.at(sent), (answer) => {
          tally.take(answer, since_ms, sent_ms)
          sendDue()
        })
      )
        return
      tally.lateness_ms[sent++] = performance.now() - since_ms
    }
  }
  const timer = setInterval(sendDue, 1)
  return await tally.complete().finally(() => clearInterval(timer))
}

export type LoadReport = {
  answered: number
  per_second: number
  statuses: Record<string, number>
  failure: string | undefined
  body_bytes: number
  p50_ms: number
  p99_ms: number
  p999_ms: number
  max_ms: number
  since_sent_p99_ms: number
  lateness_p99_ms: number
}
type GetLoad = { path: string; host: string; token: string | undefined; count: number }

let requests = new Requests()
let sockets: EventSockets | undefined
/** Of every server asked so far, by port. */
const lanes = new Map<number, { count: number; open: HttpsLanes }>()

answerQuestions({
  /** Signs in advance, which keeps the generator's cost out of the figures. */
  signPlaces(load: PlaceLoad) {
    requests = signedPlaces(load)
    return requests.bytes_each
  },
  repeatGet({ path, host, token, count }: GetLoad) {
    requests = new Requests()
    for (let at = 0; at < count; at++) requests.add(getRequest(path, host, token))
  },
  /** Sends the next `count` prepared requests; reuses the connections of the previous run to the same server. */
  async run(run: { target: Target; lanes: number; count: number; per_second?: number }) {
    const open = await openLanes(run.target, run.lanes)
    const batch = requests.take(run.count)
    const result =
      run.per_second === undefined
        ? await closedLoop(open, batch)
        : await openLoop(open, batch, run.per_second)
    return reportOf(result)
  },
  /** Opens sockets, the tokens in turn, and waits until all are open. */
  async openSockets(open: { target: Target; path: string; tokens: string[]; count: number }) {
    sockets?.close()
    sockets = await EventSockets.open(open)
  },
  closeSockets() {
    sockets?.close()
    sockets = undefined
  },
  /** Resolves once every socket has received `each` more messages, with the milliseconds since the first of them. */
  async receive(each: number) {
    return await sockets!.receive(each)
  },
})

/** Connections are kept: simultaneous handshakes of all lanes would add a pause and a cost that requests do not have. */
async function openLanes(target: Target, count: number): Promise<HttpsLanes> {
  const kept = lanes.get(target.port)
  if (kept?.count === count) return kept.open
  kept?.open.close()
  const open = await HttpsLanes.open(target, count)
  lanes.set(target.port, { count, open })
  return open
}

function reportOf(result: Tally): LoadReport {
  const { answered, statuses, failure, body_bytes, elapsed_ms } = result
  const latencies = [...result.latencies_ms]
  return {
    answered,
    per_second: (answered * 1_000) / elapsed_ms,
    statuses,
    failure,
    body_bytes,
    p50_ms: quantile(latencies, 0.5),
    p99_ms: quantile(latencies, 0.99),
    p999_ms: quantile(latencies, 0.999),
    max_ms: quantile(latencies, 1),
    since_sent_p99_ms: quantile([...result.since_sent_ms], 0.99),
    lateness_p99_ms: quantile([...result.lateness_ms], 0.99),
  }
}
