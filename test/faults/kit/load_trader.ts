/** One account under load: a wallet of several keys, its streams, its next command, and the fate of all it sent. */
import { type VenueClient, VenueProblem } from '../../../client/api/venue_client'
import type { ChainAccess } from '../../../client/chain/chain_access'
import { absorbEvent } from '../../../client/wallet/absorb'
import {
  collateralOf,
  dropRefused,
  dropRefusedPayment,
  prepareCancel,
  prepareCancelAll,
  prepareModify,
  preparePlace,
  prepareReshape,
} from '../../../client/wallet/prepare'
import { Wallet, type WalletNote } from '../../../client/wallet/wallet'
import { fromHex } from '../../../protocol/bytes'
import type { AccountEvent, Instrument } from '../../../protocol/wire/trading'
import type { Random } from '../../kit/random'

export type Command = {
  kind: 'place' | 'cancel' | 'modify' | 'reshape'
  key_index: number
  /** The order made or cancelled, or the reshape. */
  order_id: string
  /** The order a modify ends. */
  replaces?: string
  send(): Promise<{ seq: number }>
  /** The wallet forgets it when it is rejected. */
  undo(): void
  fate: 'new' | 'accepted' | 'refused' | 'unknown'
  /** Sent again after its answer was lost. */
  resent?: boolean
  /** Of the account, once accepted. */
  seq?: number
  code?: string
}

const LOT = 1_000_000n
const TICK = 1_000n
const AMOUNT_MIN = 10_000_000n
const LIFE_SLOTS = 100_000
const OPEN_MAX = 4
const MERGED_MAX = 4
/** Smaller notes are not split: their parts would be too small to trade. */
const SPLIT_MIN = 2_000_000_000n
/** Ticks: where the account's own buys begin, by its lean; its sells lie above them. */
const RANGE_FROM = [146_000, 148_000, 144_000]
const RANGE_TICKS = 4_000

/** Undefined while the key has nothing to trade with. */
export function nextCommand(trader: LoadTrader, key_index: number, random: Random): Command | undefined {
  const open = trader.wallet.state.orders.filter((order) => order.open && order.key_index === key_index)
  const notes = trader.wallet.state.notes.filter(
    (note) => note.state === 'free' && note.key_index === key_index,
  )
  const choice = random.below(10)
  if (open.length > 0 && (choice < 2 || open.length >= OPEN_MAX)) {
    return cancel(trader, key_index, random.pick(open).order_id)
  }
  if (open.length > 0 && choice < 4) return modify(trader, key_index, random.pick(open), random)
  if (notes.length === 0) return undefined
  const alike = notes.filter(({ mint }) => mint === notes[0]!.mint).slice(0, MERGED_MAX)
  if (choice === 9) {
    if (alike.length > 1) return reshape(trader, key_index, alike, 1n)
    if (BigInt(alike[0]!.amount) >= SPLIT_MIN) return reshape(trader, key_index, alike, 2n)
  }
  return place(trader, random.pick(notes), random)
}

function cancel(trader: LoadTrader, key_index: number, order_id: string): Command {
  const request = prepareCancel(trader.wallet, trader.venue, order_id, key_index)
  const send = () => trader.client.cancel(order_id, request)
  return { kind: 'cancel', key_index, order_id, send, undo() {}, fate: 'new' }
}

/** Merges the notes into one, or splits one into `parts`. */
function reshape(trader: LoadTrader, key_index: number, notes: WalletNote[], parts: bigint): Command {
  const sum = notes.reduce((all, { amount }) => all + BigInt(amount), 0n)
  const amounts = parts === 1n ? [sum] : [sum / parts, sum - sum / parts]
  const to = { amounts, expiry_slot: trader.slot + LIFE_SLOTS }
  const request = prepareReshape(trader.wallet, trader.venue, notes, to)
  const { id } = trader.wallet.state.payments.at(-1)!
  const send = () => trader.client.reshape(request)
  const undo = () => dropRefusedPayment(trader.wallet, request)
  return { kind: 'reshape', key_index, order_id: id, send, undo, fate: 'new' }
}

function place(trader: LoadTrader, note: WalletNote, random: Random): Command | undefined {
  const terms = termsFor(trader, note, random)
  if (terms === undefined) return undefined
  const request = preparePlace(trader.wallet, trader.venue, terms, note)
  const send = () => trader.client.place(request)
  const { order_id } = request
  const undo = () => dropRefused(trader.wallet, order_id)
  return { kind: 'place', key_index: note.key_index, order_id, send, undo, fate: 'new' }
}

function modify(
  trader: LoadTrader,
  key_index: number,
  old: { order_id: string; collateral: string },
  random: Random,
): Command | undefined {
  const note = trader.wallet.note(old.collateral)
  // A fill or an end that the wallet knows already leaves nothing to replace.
  if (note?.state !== 'pending' || !trader.wallet.order(old.order_id)?.open) return undefined
  const terms = termsFor(trader, note, random)
  if (terms === undefined) return undefined
  const request = prepareModify(trader.wallet, trader.venue, old.order_id, terms)
  const send = () => trader.client.modify(old.order_id, request)
  const { order_id } = request.replacement
  // The note of a rejected replacement still backs the order it was to replace.
  const undo = () => {
    trader.wallet.order(order_id)!.open = false
  }
  return { kind: 'modify', key_index, order_id, replaces: old.order_id, send, undo, fate: 'new' }
}

/** Some of the note, at a price where other accounts trade and the account itself never crosses. */
function termsFor(trader: LoadTrader, note: WalletNote, random: Random) {
  const { instrument, slot } = trader
  const side = note.mint === instrument.quote_mint ? ('buy' as const) : ('sell' as const)
  const from = RANGE_FROM[trader.lean % RANGE_FROM.length]! + (side === 'buy' ? 0 : RANGE_TICKS)
  const price_limit = BigInt(from + random.below(RANGE_TICKS)) * TICK
  const type = random.below(5) === 0 ? ('ioc' as const) : ('limit' as const)
  const amount = AMOUNT_MIN + BigInt(random.below(1_000)) * LOT
  const terms = { instrument, side, type, amount, price_limit, expiry_slot: slot + LIFE_SLOTS }
  for (const part of [1n, 4n, 16n]) {
    const lots = terms.amount / LOT / part
    const smaller = { ...terms, amount: lots * LOT }
    if (smaller.amount < AMOUNT_MIN) return undefined
    if (BigInt(note.amount) >= collateralOf(smaller).amount) return smaller
  }
  return undefined
}

type StreamName = 'trading' | 'orders' | 'fills'
type Frame = { type: string; seq?: number; seq_last?: number } & Record<string, unknown>
const WAIT_MS_MAX = 110_000
/** How long a socket that comes and goes stays. */
const STAY_MS_MAX = 300

class StreamFollower {
  readonly events: AccountEvent[] = []
  /** Forbidden frames: repeats, gaps the venue admits, frames out of order. */
  readonly faults: string[] = []
  /** How often it left by itself. */
  left = 0
  /** How often a socket that it holds was closed by the venue. */
  lost = 0
  private readonly waiters = new Set<() => void>()
  private socket: WebSocket | undefined

  constructor(
    private readonly client: () => VenueClient,
    readonly stream: StreamName,
    private readonly onEvent: (event: AccountEvent) => void = () => {},
  ) {}

  get seq(): number {
    return this.events.at(-1)?.seq ?? 0
  }

  /** Opens a socket that resumes behind the last event; resolves with its greeting. */
  async connect(): Promise<Frame> {
    const client = this.client()
    const token = await client.token()
    const socket = client.transport.webSocket(`/ws/${this.stream}?token=${token}&after=${this.seq}`)
    this.socket = socket
    const hello = Promise.withResolvers<Frame>()
    socket.onmessage = ({ data }) => {
      // A follower that left ignores frames under way.
      if (this.socket !== socket) return
      const frame = JSON.parse(String(data)) as Frame
      if (frame.type === 'hello') hello.resolve(frame)
      else this.receive(frame)
    }
    socket.onclose = ({ code }) => {
      if (this.socket === socket) this.lost += 1
      hello.reject(new Error(`/ws/${this.stream} closed with ${code}`))
    }
    return hello.promise
  }

  /** Disconnects at random moments and reconnects at once, until a socket does not open. */
  async comeAndGo(random: Random, goes_on: () => boolean): Promise<void> {
    while (goes_on()) {
      await Bun.sleep(random.below(STAY_MS_MAX))
      if (!goes_on()) return
      this.close()
      this.left++
      try {
        await this.connect()
      } catch {
        return
      }
    }
  }

  private receive(frame: Frame): void {
    if (frame.type === 'gap') this.faults.push(`gap ${frame['seq_from']} to ${frame['seq_to']}`)
    if (frame.type !== 'event') return
    const { type: _, ...event } = frame as unknown as AccountEvent & { type: string }
    const ok = this.stream === 'trading' ? event.seq === this.seq + 1 : event.seq > this.seq
    if (!ok) this.faults.push(`seq ${event.seq} after ${this.seq}`)
    this.events.push(event)
    this.onEvent(event)
    for (const look of this.waiters) look()
  }

  /** Resolves once the events satisfy `holds`, looking again after each. */
  until(what: string, holds: () => boolean): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const look = (): void => {
      if (holds()) resolve()
    }
    const late = setTimeout(() => reject(new Error(`waited in vain for ${what}`)), WAIT_MS_MAX)
    this.waiters.add(look)
    look()
    return promise.finally(() => {
      clearTimeout(late)
      this.waiters.delete(look)
    })
  }

  close(): void {
    const { socket } = this
    this.socket = undefined
    socket?.close()
  }
}

/** Given while the chain or the lease is late on a busy machine: the venue takes the next command again. */
export const PASSING = ['reopening', 'lease_lost']
/** Asks again, with the same bytes, while the venue rejects because of a late chain or does not know the outcome yet. */
export async function onceServed<T>(ask: () => Promise<T>): Promise<T> {
  const end_ms = performance.now() + SERVED_MS_MAX
  for (;;) {
    try {
      return await ask()
    } catch (error) {
      const passes =
        error instanceof VenueProblem && (PASSING.includes(error.code) || error.applied === 'unknown')
      if (!passes || performance.now() > end_ms) throw error
      await Bun.sleep(20)
    }
  }
}
const SERVED_MS_MAX = 60_000
/** Refusals a trader meets by racing the auction or its own orders. */
const ORDINARY = ['self_cross', 'order_final', 'note_spent', 'note_in_use', 'collateral_insufficient']

export class LoadTrader {
  readonly wallet = new Wallet(crypto.getRandomValues(new Uint8Array(32)))
  readonly sent: Command[] = []
  readonly streams: readonly StreamFollower[]
  readonly trading: StreamFollower
  /** States that no order of events explains. */
  readonly faults: string[] = []
  venue = new Uint8Array(32)
  instrument!: Instrument
  slot = 0
  /** The process is stopping: it rejects new orders. */
  draining = false
  /** Which part of the price range the account buys and sells in; changes let notes flow back. */
  lean = 0

  constructor(
    readonly name: string,
    readonly keys: number,
    /** Another one once the credential is replaced. */
    public client: VenueClient,
    readonly chain: ChainAccess,
  ) {
    const current = () => this.client
    this.trading = new StreamFollower(current, 'trading', (event) => {
      try {
        absorbEvent(this.wallet, this.generation, event)
      } catch (error) {
        this.faults.push(`seq ${event.seq} ${event.kind}: ${(error as Error).message}`)
      }
    })
    this.streams = [this.trading, new StreamFollower(current, 'orders'), new StreamFollower(current, 'fills')]
  }
  private generation = 0

  /** Logs in to a venue that has just started: tokens die with the process that gave them. */
  async connect(): Promise<void> {
    await onceServed(() => this.client.login())
    const info = await this.client.info()
    this.venue = new Uint8Array(fromHex(info.venue, 32)!)
    this.generation = info.generation
    this.instrument = await this.client.instrument('SOL-USDC')
    this.slot = (await this.client.time()).slot
    for (const stream of this.streams) await stream.connect()
  }
  close(): void {
    for (const stream of this.streams) stream.close()
  }

  /** Sends command after command for one key until an answer is lost, or `goes_on` says no. */
  async trade(key_index: number, random: Random, goes_on: () => boolean): Promise<void> {
    while (goes_on()) {
      const command = nextCommand(this, key_index, random)
      if (command === undefined) await Bun.sleep(1)
      else {
        const fate = await this.send(command)
        if (fate === 'unknown') return
        if (command.code === 'draining' || PASSING.includes(command.code ?? '')) await Bun.sleep(5)
      }
    }
  }

  /** Sends the command's own bytes, for the first time or again, and notes its fate. */
  async send(command: Command): Promise<Command['fate']> {
    if (command.fate === 'new') this.sent.push(command)
    try {
      const { seq } = await command.send()
      Object.assign(command, { fate: 'accepted', seq })
      // Its event may come later than the answer; until then it is not cancelled again.
      const ended = command.kind === 'cancel' ? command.order_id : command.replaces
      if (ended !== undefined) this.wallet.order(ended)!.open = false
    } catch (error) {
      command.fate = 'unknown'
      if (error instanceof VenueProblem) this.settleRefused(command, error)
    }
    return command.fate
  }

  private settleRefused(command: Command, { code, applied, problem }: VenueProblem): void {
    command.code = code
    if (applied === 'yes') {
      Object.assign(command, { fate: 'accepted', seq: (problem['result'] as { seq: number }).seq })
      return
    }
    // `outcome_unknown`: stored, and not released. A resend is sent again.
    if (applied === 'unknown' || (command.resent && PASSING.includes(code))) return
    command.fate = 'refused'
    const passes = PASSING.includes(code) || (code === 'draining' && this.draining)
    const expected = ORDINARY.includes(code) || passes || (command.resent && code === 'nonce_stale')
    if (!expected) this.faults.push(`${command.kind} refused: ${code}`)
    command.undo()
  }
}

function isSettled({ trading, wallet }: LoadTrader): boolean {
  const count = (name: string) => trading.events.filter(({ kind }) => kind === name).length
  // A filled order whose fills are still being hashed does not list them yet.
  const told = new Map<string, number>()
  for (const { kind, data } of trading.events) {
    if (kind !== 'fill.matched') continue
    const { order_id, amount } = data as { order_id: string; amount: string }
    told.set(order_id, (told.get(order_id) ?? 0) + Number(amount))
  }
  const filled = new Map<string, number>()
  for (const { kind, data } of trading.events) {
    // A rejected cancel of an order that has ended names only the order.
    if (!kind.startsWith('order.') || !('filled_amount' in data)) continue
    const { order_id, filled_amount } = data as { order_id: string; filled_amount: string }
    filled.set(order_id, Number(filled_amount))
  }
  const all_told = [...filled].every(([order_id, amount]) => (told.get(order_id) ?? 0) === amount)
  const idle = wallet.state.orders.every((order) => !order.open)
  const inputs = wallet.state.payments.flatMap((payment) => payment.inputs)
  const reshaped = inputs.every((input) => wallet.note(input)?.state !== 'pending')
  return idle && reshaped && all_told && count('fill.finalized') === count('fill.matched')
}

export async function windDown(traders: readonly LoadTrader[]): Promise<void> {
  for (const { client, keys, venue, wallet } of traders) {
    const requests = Array.from({ length: keys }, (_, key_index) =>
      prepareCancelAll(wallet, venue, key_index),
    )
    await onceServed(() => client.cancelAll(requests))
  }
  for (const trader of traders) {
    await trader.trading.until(`${trader.name}'s fills to be final`, () => isSettled(trader))
  }
}
