/** Checks each settlement batch when it is packed, and all claims against the vault's balance of each mint. */
import type { Command } from '../../engine/commands'
import { type SettlementBatch, unopenedExits } from '../../engine/machine/state/batch'
import type { Note } from '../../engine/machine/state/note'
import type { AuctionRecord, Outcome } from '../../engine/machine/state/outcome'
import type { State } from '../../engine/machine/state/state'
import { equalBytes, toHex } from '../../protocol/bytes'
import type { VaultEvent } from '../../protocol/vault/events'
import type { Order as WireOrder } from '../../protocol/wire/trading'
import { LOT, TICK } from '../kit/venue/machine_world'
import type { SimChain } from './sim_venue'

const BPS = 10_000n
type Fill = SettlementBatch['fills'][number]

export class BatchLaws {
  checked = 0
  fills = 0
  /** All trades of an order so far, by id: the fee is due on the sum, not on each part. */
  readonly #orders = new Map<string, { quote: bigint; fee: bigint }>()

  /** @param keys the one trading key of each account, base58 */
  constructor(readonly keys: ReadonlyMap<string, string>) {}

  /** Every batch that was packed since. @throws Error naming the batch and the broken law */
  check(state: State): void {
    for (let id = this.checked + 1; id <= state.settlement.last_batch; id++) {
      const batch = state.settlement.batches.get(id)
      if (batch === undefined) throw new Error(`batch ${id} is gone before anybody looked at it`)
      balance(state, batch)
      for (const fill of batch.fills) this.#fee(state, fill)
      owners(state, batch, this.keys)
      this.checked = id
      this.fills += batch.fills.length
    }
  }

  /** The fee of an order so far is its share of all it traded, rounded up once. */
  #fee(state: State, fill: Fill): void {
    const { terms } = state.instruments.get(fill.symbol)!
    if (fill.quote_amount * 10n ** BigInt(terms.base_decimals) !== fill.amount * fill.price)
      throw new Error('a fill is not worth amount times price')
    const order_id = fill.order_id.toHex()
    const sum = this.#orders.get(order_id) ?? { quote: 0n, fee: 0n }
    sum.quote += fill.quote_amount
    sum.fee += fill.fee
    this.#orders.set(order_id, sum)
    const due = (sum.quote * BigInt(terms.fee_bps) + BPS - 1n) / BPS
    if (sum.fee !== due) throw new Error(`order ${order_id} paid ${sum.fee} where ${due} is due`)
  }
}

/** Notes in = notes out + payouts + fees, for each mint. */
function balance(state: State, batch: SettlementBatch): void {
  const rest = state.mints.map((_, mint) => -(batch.fees[mint] ?? 0n))
  for (const note of batch.inputs) rest[note.mint]! += note.amount
  for (const exit of unopenedExits(batch)) rest[mintOf(state, exit.mint)]! += exit.amount
  for (const { note } of batch.outputs) rest[note.mint]! -= note.amount
  for (const payout of batch.payouts) {
    rest[payout.kind === 'exit' ? mintOf(state, payout.mint) : payout.note.mint]! -= payout.amount
  }
  rest.forEach((amount, mint) => {
    if (amount !== 0n) throw new Error(`batch ${batch.batch_id} is off by ${amount} of mint ${mint}`)
  })
}

/** Each key gains or loses exactly by its own fills, withdrawals and exits. */
function owners(state: State, batch: SettlementBatch, keys: ReadonlyMap<string, string>): void {
  const rest = new Map<string, bigint>()
  const add = (owner: string, mint: number, amount: bigint): void => {
    rest.set(`${owner} ${mint}`, (rest.get(`${owner} ${mint}`) ?? 0n) + amount)
  }
  for (const { owner_text, mint, amount } of batch.inputs) add(owner_text, mint, amount)
  for (const { note, anchor } of batch.outputs) {
    // Fees of earlier batches that become a note: no account pays for it here.
    if (anchor !== state.fee_anchor) add(note.owner_text, note.mint, -note.amount)
  }
  for (const fill of batch.fills) {
    const { terms } = state.instruments.get(fill.symbol)!
    const sign = fill.side === 'buy' ? 1n : -1n
    const owner = keys.get(fill.account.account_id)!
    add(owner, terms.base, sign * fill.amount)
    add(owner, terms.quote, -sign * fill.quote_amount - fill.fee)
  }
  for (const payout of batch.payouts) {
    const { note, amount } = payout
    if (note !== undefined)
      add(note.owner_text, note.mint, -amount - (payout.kind === 'exit' ? 0n : payout.fee))
  }
  for (const [who, amount] of rest) {
    if (amount !== 0n) throw new Error(`batch ${batch.batch_id}: ${who} is off by ${amount}`)
  }
}

const mintOf = (state: State, mint: Uint8Array): number =>
  state.mints.findIndex(({ bytes }) => equalBytes(bytes, mint))

type Accepted = Extract<Outcome, { ok: true }>
type Kept = {
  symbol: string
  account_id: string
  side: 'buy' | 'sell'
  type: 'limit' | 'ioc' | 'fok'
  lots: number
  ticks: number
  min_lots: number
  filled: number
}

export class OrderLedger {
  readonly #live = new Map<string, Kept>()
  /** Replacements that wait for a decision, by number. */
  readonly #waiting = new Map<number, Modify>()
  fills = 0
  auctions = 0
  ended = 0

  /** @throws Error naming the order or auction that does not add up */
  seen(command: Command, outcome: Accepted): void {
    if (command.kind === 'place') this.#add(command.account_id, command)
    if (command.kind === 'modify') this.#modified(command, outcome)
    for (const auction of outcome.auctions) this.#auction(auction)
    for (const [number, effect] of outcome.effects) {
      const waited = this.#waiting.get(number)
      this.#waiting.delete(number)
      if (waited !== undefined && 'kind' in effect) this.#add(waited.account_id, waited.replacement)
    }
    for (const { event } of outcome.events) {
      const { order_id, filled_amount, remaining_amount, status } = event.data as WireOrder
      if (!['order.cancelled', 'order.expired', 'order.replaced', 'order.filled'].includes(event.kind))
        continue
      const kept = this.#live.get(order_id)
      if (kept === undefined) throw new Error(`order ${order_id} ended twice`)
      if (BigInt(filled_amount) !== BigInt(kept.filled) * LOT)
        throw new Error(`order ${order_id} tells ${filled_amount} filled of ${kept.filled} lots`)
      const whole = kept.filled === kept.lots
      if ((status === 'filled') !== whole) throw new Error(`order ${order_id} is ${status}, whole ${whole}`)
      if (!whole && BigInt(remaining_amount) !== BigInt(kept.lots - kept.filled) * LOT)
        throw new Error(`order ${order_id} tells ${remaining_amount} remaining`)
      this.#live.delete(order_id)
      this.ended += 1
    }
  }

  /** The replacement of a member is an order after the decision, unless it is rejected then. */
  #modified(command: Modify, { answer }: Accepted): void {
    const number = answer.kind === 'modify' ? answer.number : undefined
    if (number === undefined) this.#add(command.account_id, command.replacement)
    else this.#waiting.set(number, command)
  }

  /** Every live order rests with exactly the amount that no auction filled. */
  check(state: State): void {
    if (state.orders.size !== this.#live.size)
      throw new Error(`${state.orders.size} orders are live where ${this.#live.size} were left`)
    for (const order of state.orders.values()) {
      const kept = this.#live.get(order.order_id)
      if (kept === undefined || kept.lots !== order.lots || order.remaining !== kept.lots - kept.filled)
        throw new Error(`order ${order.order_id} rests with ${order.remaining} lots`)
    }
  }

  #add(account_id: string, body: Extract<Command, { kind: 'place' }> | Replacement): void {
    const { symbol, side, type } = body
    const [lots, min_lots] = [Number(body.amount / LOT), Number(body.min_fill / LOT)]
    const kept = { symbol, account_id, side, type, lots, min_lots, ticks: Number(body.price_limit / TICK) }
    this.#live.set(body.order_id.toHex(), { ...kept, filled: 0 })
  }

  /** Lots bought are lots sold, at a price inside every limit, to one side of each account; minima are kept. */
  #auction({ symbol, batch, price_ticks, volume_lots, fills }: AuctionRecord): void {
    this.auctions += 1
    const sums = { buy: 0, sell: 0 }
    const sides = new Map<string, 'buy' | 'sell'>()
    for (const { order_id, lots } of fills) {
      const kept = this.#live.get(order_id)
      const fails = (what: string) => new Error(`${symbol} auction ${batch}, order ${order_id}: ${what}`)
      if (kept === undefined || kept.symbol !== symbol) throw fails('filled and not live')
      const { side, ticks, account_id } = kept
      if (price_ticks === null || (side === 'buy' ? ticks < price_ticks : ticks > price_ticks))
        throw fails('filled beyond its limit')
      const rest = kept.lots - kept.filled
      const least = kept.type === 'fok' ? kept.lots : Math.min(kept.min_lots, rest)
      if (lots < Math.max(1, least) || lots > rest) throw fails(`${lots} of ${rest} lots, at least ${least}`)
      if ((sides.get(account_id) ?? side) !== side) throw fails('its account is on both sides')
      sides.set(account_id, side)
      sums[side] += lots
      kept.filled += lots
      this.fills += 1
    }
    if (sums.buy !== volume_lots || sums.sell !== volume_lots)
      throw new Error(
        `${symbol} auction ${batch}: ${sums.buy} bought, ${sums.sell} sold, ${volume_lots} told`,
      )
  }
}

type Modify = Extract<Command, { kind: 'modify' }>
type Replacement = Modify['replacement']

/** A note its owner can open and the venue does not know. */
export type OpenNote = {
  owner: number
  mint: Uint8Array
  amount: bigint
  blinding: Uint8Array
  leaf_index: number
  commitment: Uint8Array
  nullifier: Uint8Array
}

export class Holdings {
  /** Deposits and refunded exits, by commitment. */
  readonly unopened = new Map<string, OpenNote>()
  /** Refund notes of withdrawals that the venue has yet to register, by commitment. */
  readonly #refunds = new Map<string, { mint: string; amount: bigint }>()

  /** By mint, hex: deposits less payouts, by the chain's events. */
  readonly #vault = new Map<string, bigint>()
  paid = 0
  refunded = 0

  landed(event: VaultEvent): void {
    this.#move(event, 1n)
    if (event.kind !== 'paid') return
    const { payout, refund, mint, amount } = event
    if (refund === undefined) this.paid += 1
    else this.refunded += 1
    if (payout === 'withdrawal' && refund)
      this.#refunds.set(toHex(refund.commitment), { mint: toHex(mint), amount })
  }

  lost(event: VaultEvent): void {
    this.#move(event, -1n)
    if (event.kind === 'deposited') this.unopened.delete(toHex(event.commitment))
    if (event.kind !== 'paid' || event.refund === undefined) return
    this.unopened.delete(toHex(event.refund.commitment))
    this.#refunds.delete(toHex(event.refund.commitment))
  }

  #move(event: VaultEvent, sign: 1n | -1n): void {
    const add = (mint: Uint8Array, amount: bigint): void => {
      this.#vault.set(toHex(mint), (this.#vault.get(toHex(mint)) ?? 0n) + sign * amount)
    }
    if (event.kind === 'deposited') add(event.mint, event.amount)
    if (event.kind === 'paid' && event.refund === undefined) add(event.mint, -event.amount)
  }

  /** @throws Error naming the mint that does not add up */
  check(state: State, chain: SimChain): void {
    const { last_batch } = chain.vault().config
    const owed = state.mints.map((_, mint) => state.settlement.fees[mint]!)
    for (const note of held(state)) if (note.status !== 'spent') owed[note.mint]! += note.amount
    const add = (mint: string, amount: bigint): void => {
      owed[state.mints.findIndex(({ bytes }) => toHex(bytes) === mint)]! += amount
    }
    for (const { batch_id, payouts } of state.settlement.batches.values()) {
      if (batch_id <= last_batch) continue
      for (const payout of payouts) {
        const mint = payout.kind === 'exit' ? payout.mint : state.mints[payout.note.mint]!.bytes
        add(toHex(mint), payout.amount)
      }
    }
    for (const [commitment, { mint, amount }] of this.#refunds) {
      if (state.notes.has(Uint8Array.fromHex(commitment))) this.#refunds.delete(commitment)
      else add(mint, amount)
    }
    for (const [commitment, note] of this.unopened) {
      if (isKnown(state, note)) this.unopened.delete(commitment)
      else add(toHex(note.mint), note.amount)
    }
    state.mints.forEach(({ bytes, text }, mint) => {
      const { balance, liabilities, queued } = chain.money(bytes)
      const open = chain.queue().filter((entry) => toHex(entry.mint) === toHex(bytes))
      const due = open.reduce((sum, { amount }) => sum + amount, 0n)
      if (due !== queued) throw new Error(`entries of ${due} of ${text} are open, the vault says ${queued}`)
      const told = this.#vault.get(toHex(bytes)) ?? 0n
      if (balance !== told) throw new Error(`events leave ${told} of ${text}, the vault holds ${balance}`)
      if (balance !== liabilities + queued)
        throw new Error(`the vault owes ${liabilities} and ${queued} of ${text} and holds ${balance}`)
      if (owed[mint] !== liabilities)
        throw new Error(`${owed[mint]} of ${text} is owed, the vault says ${liabilities}`)
    })
  }
}

/** Notes in memory, and notes that batches will create once they are hashed. */
function* held(state: State): Iterable<Note> {
  yield* state.notes.values()
  for (const { outputs, hashed } of state.settlement.batches.values()) {
    if (hashed === undefined) for (const { note } of outputs) yield note
  }
}

/** The venue opened it, or a packed exit spends it. */
function isKnown(state: State, { commitment, nullifier }: OpenNote): boolean {
  const exit = state.settlement.exits.get(toHex(nullifier))
  const packed = exit !== undefined && exit.note === undefined && exit.settlement_batch > 0
  return packed || state.notes.has(commitment) || state.nullifiers.has(nullifier)
}
