/**
 * Places and cancels orders at a steady rate in a separate process, and goes on after each kill of the venue. Acknowledged
 * orders must be there then, once: all open orders, and the newest events by seq.
 */
import { answerQuestions, type Child, startChild } from '../../../bench/kit/child_process'
import { quantile } from '../../../bench/kit/figures'
import { type Answered, HttpsLanes } from '../../../bench/load/https_lanes'
import { type Login, VenueClient } from '../../../client/api/venue_client'
import { openChainAccess } from '../../../client/chain/chain_access'
import { cancelBody, placeBody } from '../../../client/wallet/prepare'
import type { WalletNote } from '../../../client/wallet/wallet'
import { encodeBase58 } from '../../../protocol/base58'
import { fromHex, toHex } from '../../../protocol/bytes'
import { type SigningKey, signingKey } from '../../../protocol/ed25519'
import { deriveTradingKey } from '../../../protocol/notes/derive'
import type { AccountEvent, Order, Page } from '../../../protocol/wire/trading'
import { JTO, USDC } from '../../../sandbox/environment'
import type { SandboxFacts } from '../../../sandbox/open_sandbox'
import { LoadTrader, PASSING } from '../kit/load_trader'
import { fundTrader, openAccount } from '../kit/open_trader'
import { type VenueProcess, venueTransport } from '../kit/venue_process'
import { differences, type OrderState } from './verdict'

type BackgroundTerms = {
  /** 64 hex digits. */
  venue: string
  expiry_slot: number
  accounts: { login: Login; seed: string; side: 'buy' | 'sell'; notes: WalletNote[] }[]
}
export type BackgroundSample = {
  /** Orders placed and cancelled since the last sample, both acknowledged. */
  orders: number
  /** From the moment at which a place was due, without the time in which this process did not run. */
  p50_ms: number
  p99_ms: number
  /** In which this process did not run, as others had the cores, while a place was due. */
  late_p99_ms: number
  open: number
  /** Moments at which no note was free for an order that was due a second ago. */
  skipped: number
  /** Without a kill. */
  reconnects: number
  faults: string[]
}

/** An instrument in which nothing else trades: buys and sells rest apart. */
const SYMBOL = 'JTO-USDC'
const LOT = 100_000_000n
const LOTS_MIN = 10
const PRICES = { buy: 2_000_000n, sell: 3_000_000n }
/** Most orders are short, and some see several auctions. */
const REST_MS = [5, 40]
const LONG_REST_MS = [1_000, 4_000]
const LONG_SHARE = 0.01
const LATE_MS_MAX = 1_000
const RESEND_MS = 50
const UNANSWERED_MS = 20_000
const TOKENS_MS = 30_000
/** Newest acknowledged events of an account that are compared with the venue's after a restart. */
const EVENTS_KEPT = 2_000
const PAGE = 500
const ANCHORS = Array.from({ length: 4 }, (_, at) => toHex(new Uint8Array(32).fill(at + 1)))
/** The venue takes the same bytes again after them. */
const AGAIN = [...PASSING, 'draining', 'outcome_unknown', 'matching_unavailable', 'settlement_backlog']

type Slot = {
  readonly account: number
  readonly key: SigningKey
  readonly trading_key: string
  readonly note: WalletNote
  nonce: number
  order_id: string
  place: string
  cancel: string
  state: OrderState
  due_ms: number
  sent_ms: number
  /** Its state is known from a list of the venue: the answer of a resend must say the same. */
  listed?: boolean
}

const between = ([from, to]: number[]) => from! + Math.random() * (to! - from!)

class Background {
  readonly #slots: Slot[] = []
  readonly #ready: Slot[] = []
  readonly #clients: VenueClient[]
  readonly #tokens: string[] = []
  /** By account: acknowledged events by seq. */
  readonly #acknowledged: Map<number, string>[]
  #facts!: SandboxFacts
  #lanes: HttpsLanes | undefined
  /** Answers of earlier lives are not counted. */
  #life = 0
  /** Undefined: as fast as possible, without rest. */
  #per_second: number | undefined
  #paused = true
  #due_ms = 0
  #ticked_ms = 0
  #orders = 0
  #skipped = 0
  #reconnects = 0
  #took_ms: number[] = []
  #late_ms: number[] = []
  #faults: string[] = []

  constructor(readonly terms: BackgroundTerms) {
    const facts = () => this.#facts
    const transport = venueTransport({
      get facts() {
        return facts()
      },
    })
    this.#clients = terms.accounts.map(({ login }) => new VenueClient(transport, login))
    this.#acknowledged = terms.accounts.map(() => new Map())
    for (const [account, { seed, notes }] of terms.accounts.entries())
      for (const note of notes) {
        const key = signingKey(deriveTradingKey(fromHex(seed, 32)!, note.key_index))
        const trading_key = encodeBase58(key.public_key)
        const blank = { order_id: '', place: '', cancel: '', state: 'ready', due_ms: 0, sent_ms: 0 } as const
        this.#sign({ account, key, trading_key, note, nonce: 0, ...blank })
      }
    this.#slots.push(...this.#ready)
    setInterval(() => this.#tick(), 1)
    setInterval(() => void this.#renewTokens().catch(() => undefined), TOKENS_MS)
  }

  pace(per_second: number | undefined): void {
    this.#per_second = per_second
    this.#due_ms = performance.now()
  }
  pause(): void {
    this.#paused = true
  }

  /** Signs the next order of the slot and its cancel. */
  #sign(slot: Slot): void {
    const { account, key, trading_key, note } = slot
    const { side } = this.terms.accounts[account]!
    const venue = fromHex(this.terms.venue, 32)!
    slot.nonce += 1
    slot.order_id = toHex(crypto.getRandomValues(new Uint8Array(16)))
    const nonce = String(slot.nonce)
    const { mint, amount, blinding, leaf_index } = note
    const order = {
      order_id: slot.order_id,
      trading_key,
      symbol: SYMBOL,
      side,
      type: 'limit' as const,
      amount: String(LOT * BigInt(LOTS_MIN + Math.floor(Math.random() * LOTS_MIN))),
      price_limit: String(PRICES[side]),
      min_fill: '0',
      expiry_slot: this.terms.expiry_slot,
      nonce,
      collateral_commitment: note.commitment,
      continuation_anchors: ANCHORS,
    }
    const opening = { mint, amount, blinding, leaf_index }
    const place_signature = toHex(key.sign(placeBody(venue, order)))
    slot.place = JSON.stringify({ ...order, opening, signature: place_signature })
    const cancel = { trading_key, cancel_nonce: nonce }
    const cancel_signature = toHex(key.sign(cancelBody(venue, slot.order_id, cancel)))
    slot.cancel = JSON.stringify({ ...cancel, signature: cancel_signature })
    slot.state = 'ready'
    this.#ready.push(slot)
  }

  #tick(): void {
    if (this.#lanes !== undefined && this.#lanes.ended > 0) void this.#reconnect()
    const now_ms = performance.now()
    const stood_ms = now_ms - this.#ticked_ms
    this.#ticked_ms = now_ms
    if (this.#paused || this.#lanes === undefined) return
    if (this.#per_second === undefined) this.#due_ms = now_ms
    else if (now_ms - this.#due_ms > LATE_MS_MAX) {
      this.#due_ms = now_ms
      this.#skipped += 1
    }
    while (this.#due_ms <= now_ms) {
      const slot = this.#ready.shift()
      if (slot === undefined) return
      // A place that waited for a note, too, waited for the venue.
      const late_ms = Math.min(now_ms - this.#due_ms, stood_ms)
      slot.due_ms = this.#due_ms + late_ms
      this.#late_ms.push(late_ms)
      if (this.#per_second !== undefined)
        this.#due_ms += (-Math.log(1 - Math.random()) * 1_000) / this.#per_second
      slot.state = 'placing'
      this.#send(slot)
    }
  }

  #send(slot: Slot): void {
    const { account, order_id, state, place, cancel } = slot
    const body = state === 'placing' ? place : cancel
    const first = state === 'placing' ? 'POST /orders' : `DELETE /orders/${order_id}`
    const request = Buffer.from(
      `${first} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${this.#tokens[account]}\r\n` +
        `content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    )
    const life = this.#life
    slot.sent_ms = performance.now()
    const went = this.#lanes!.send(request, (answer) => {
      if (life === this.#life) this.#take(slot, answer)
    })
    if (!went) this.#later(slot, RESEND_MS)
  }

  #later(slot: Slot, delay_ms: number): void {
    const life = this.#life
    setTimeout(() => {
      if (life === this.#life && this.#lanes !== undefined) this.#send(slot)
    }, delay_ms)
  }

  #take(slot: Slot, { status, body }: Answered): void {
    // The next tick connects again and sends the same bytes.
    if (status === 0) return
    const answer = JSON.parse(body) as { code?: string; seq?: number; result?: { seq: number } }
    const { code = '', seq = answer.result?.seq } = answer
    const { state, account, order_id } = slot
    if (status === 401) {
      this.#clients[account]!.forget(this.#tokens[account]!)
      void this.#renewTokens().catch(() => undefined)
    }
    const repeated = code === (state === 'placing' ? 'order_exists' : 'order_final')
    if (status === 401 || AGAIN.includes(code)) this.#later(slot, RESEND_MS)
    else if (status >= 300 && !repeated) this.#faults.push(`load: ${state} answers ${status} ${code}`)
    else {
      this.#checkResent(slot, repeated)
      if (seq !== undefined && status !== 202) this.#acknowledge(account, seq, `${state} ${order_id}`)
      this.#next(slot, repeated)
    }
  }

  /** A list that was read after the restart gives the answer. */
  #checkResent(slot: Slot, repeated: boolean): void {
    const { listed, state, order_id } = slot
    delete slot.listed
    if (listed === undefined) return
    // A cancel that waited for its batch ends an order that was still listed.
    const holds = state === 'placing' ? repeated === listed : repeated || listed
    if (!holds)
      this.#faults.push(`load: ${order_id}, listed ${listed}: ${state} answers repeated ${repeated}`)
  }

  #next(slot: Slot, repeated: boolean): void {
    if (slot.state === 'placing') {
      if (!repeated) this.#took_ms.push(performance.now() - slot.due_ms)
      slot.state = 'open'
      this.#rest(slot)
    } else {
      this.#orders += 1
      this.#sign(slot)
    }
  }

  #rest(slot: Slot): void {
    const life = this.#life
    const rest_ms =
      this.#per_second === undefined ? 0 : between(Math.random() < LONG_SHARE ? LONG_REST_MS : REST_MS)
    setTimeout(() => {
      if (life !== this.#life || this.#lanes === undefined) return
      slot.state = 'cancelling'
      this.#send(slot)
    }, rest_ms)
  }

  #acknowledge(account: number, seq: number, what: string): void {
    const all = this.#acknowledged[account]!
    const known = all.get(seq)
    if (known !== undefined && known !== what)
      this.#faults.push(`load: seq ${seq} was ${known} and is ${what}`)
    all.set(seq, what)
    if (all.size > EVENTS_KEPT) all.delete(all.keys().next().value!)
  }

  /** The venue was killed, or a connection broke: commands under way are unknown until they are sent again. */
  #lost(): void {
    this.#life += 1
    const lanes = this.#lanes
    this.#lanes = undefined
    lanes?.close()
  }

  /** A renewed certificate ends connections that are kept alive; a killed venue is not reached before `resume`. */
  async #reconnect(): Promise<void> {
    this.#lost()
    const life = this.#life
    let lanes: HttpsLanes | undefined
    while (lanes === undefined) {
      await Bun.sleep(RESEND_MS)
      lanes = await this.#connect().catch(() => undefined)
      if (life !== this.#life) return lanes?.close()
    }
    this.#reconnects += 1
    this.#goOn(lanes)
  }

  async #connect(): Promise<HttpsLanes> {
    const certificate = await Bun.file(this.#facts.certificate).text()
    const port = Number(new URL(this.#facts.url).port)
    return HttpsLanes.open({ port, certificate }, this.#slots.length)
  }

  #goOn(lanes: HttpsLanes): void {
    this.#lanes = lanes
    for (const slot of this.#slots)
      if (slot.state === 'open') this.#rest(slot)
      else if (slot.state !== 'ready') this.#send(slot)
  }

  async #renewTokens(): Promise<void> {
    for (const [at, client] of this.#clients.entries()) this.#tokens[at] = await client.token()
  }

  /** Compares the venue with acknowledged commands, sends the unknown again, and goes on. */
  async resume(facts: SandboxFacts): Promise<void> {
    this.#lost()
    this.#facts = facts
    for (const client of this.#clients) await client.login()
    await this.#renewTokens()
    for (const account of this.#clients.keys()) await this.#compare(account)
    const lanes = await this.#connect()
    this.#paused = false
    this.#due_ms = performance.now()
    // Commands that waited for the restart are no latency of the venue that runs.
    for (const slot of this.#slots) slot.due_ms = this.#due_ms
    this.#goOn(lanes)
  }

  async #compare(account: number): Promise<void> {
    const client = this.#clients[account]!
    const known = this.#acknowledged[account]!
    const slots = this.#slots.filter((slot) => slot.account === account)
    const open = await pages<Order>((after) => client.orders({ status: 'open', after, limit: PAGE }))
    const from = known.size === 0 ? undefined : Math.min(...known.keys()) - 1
    const events =
      from === undefined
        ? []
        : await pages<AccountEvent>((after) => client.events({ after, limit: PAGE }), from)
    this.#faults.push(...differences({ slots, open, known, events }).map((fault) => `load: ${fault}`))
    const listed = new Set(open.map(({ order_id }) => order_id))
    for (const slot of slots)
      if (slot.state === 'placing' || slot.state === 'cancelling') slot.listed = listed.has(slot.order_id)
    known.clear()
  }

  sample(): BackgroundSample {
    const now_ms = performance.now()
    const isLate = ({ state, sent_ms }: Slot) =>
      (state === 'placing' || state === 'cancelling') && now_ms - sent_ms > UNANSWERED_MS
    if (this.#slots.some(isLate)) this.#faults.push(`load: no answer in ${UNANSWERED_MS} ms`)
    const share = (all: number[], of: number) => (all.length === 0 ? Number.NaN : quantile(all, of))
    const sample = {
      orders: this.#orders,
      p50_ms: share(this.#took_ms, 0.5),
      p99_ms: share(this.#took_ms, 0.99),
      late_p99_ms: share(this.#late_ms, 0.99),
      open: this.#slots.filter(({ state }) => state === 'open').length,
      skipped: this.#skipped,
      reconnects: this.#reconnects,
      faults: this.#faults,
    }
    this.#orders = this.#skipped = this.#reconnects = 0
    this.#took_ms = []
    this.#late_ms = []
    this.#faults = []
    return sample
  }

  /** Places nothing more; resolves once all orders are cancelled. */
  async finish(): Promise<void> {
    this.pause()
    while (this.#slots.some(({ state }) => state !== 'ready')) await Bun.sleep(RESEND_MS)
    for (const account of this.#clients.keys()) await this.#compare(account)
  }
}

async function pages<T>(read: (after: number) => Promise<Page<T>>, from = 0): Promise<T[]> {
  const items: T[] = []
  for (let after: number | null = from; after !== null; ) {
    const page: Page<T> = await read(after)
    items.push(...page.items)
    after = page.next_after
  }
  return items
}

/** Of each side, one note each: a key has one request under way, so that its nonces arrive in their order. */
const KEYS = 256
const LIFE_SLOTS = 200_000
const DEPOSITED = { buy: { mint: USDC, amount: 100_000_000n }, sell: { mint: JTO, amount: 20_000_000_000n } }

/** Opens and funds the accounts, and starts the process; it sends nothing until `resume`. */
export async function startBackground(venue: VenueProcess): Promise<{ child: Child; traders: LoadTrader[] }> {
  const terms: BackgroundTerms = { venue: '', expiry_slot: 0, accounts: [] }
  const traders: LoadTrader[] = []
  for (const side of ['buy', 'sell'] as const) {
    const { client, credentials } = await openAccount(venue, `load ${side}`)
    const chain = await openChainAccess(venue.facts.rpc_url, crypto.getRandomValues(new Uint8Array(32)))
    const trader = new LoadTrader(`load ${side}`, KEYS, client, chain)
    const { mint, amount } = DEPOSITED[side]
    await fundTrader(trader, venue.facts.program_id, new Map([[mint, amount]]), 1)
    const { seed, state } = trader.wallet
    terms.accounts.push({ login: credentials, seed: toHex(seed), side, notes: state.notes })
    terms.venue = (await client.info()).venue
    terms.expiry_slot = (await client.time()).slot + LIFE_SLOTS
    traders.push(trader)
  }
  const child = startChild('../test/faults/soak/background.ts')
  await child.ask('open', terms)
  return { child, traders }
}

let background: Background | undefined
if (import.meta.main)
  answerQuestions({
    open(terms: BackgroundTerms) {
      background = new Background(terms)
    },
    resume: (facts: SandboxFacts) => background!.resume(facts),
    /** @param per_second 0 as fast as possible */
    pace: (per_second: number) => background!.pace(per_second === 0 ? undefined : per_second),
    sample: () => background!.sample(),
    finish: () => background!.finish(),
  })
