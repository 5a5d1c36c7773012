/**
 * Packs fills, withdrawals, reshapes, served exits and fees into settlement batches that each conserve every mint, and drops
 * an exit that was never requested out of them.
 */
import { SETTLE_LIMITS } from '../../../protocol/limits'
import {
  type Amount,
  feeUpTo,
  type Lots,
  minus,
  type Price,
  plus,
  type QuoteUnits,
  type Ticks,
} from '../../../protocol/units'
import { LIMITS, MS_PER_DAY } from '../../limits'
import {
  appendSpent,
  coverLeaf,
  createNote,
  type Exit,
  moveFees,
  NO_ORDER_ID,
  type Reshape,
  type SettlementBatch,
  spendNote,
  spentIn,
  unopenedExits,
  type Withdrawal,
} from '../state/batch'
import { baseOf, type InstrumentTerms, priceOf, quoteOf } from '../state/instrument'
import { holdAll, holdFill, type Note } from '../state/note'
import type { FillRecord, Order } from '../state/order'
import { type State, settingsOf } from '../state/state'

/** Opens settlement batches while a slot is applied and allocates their capacity. A batch only grows during its slot. */
export class Packer {
  /** The open batch. */
  batch: SettlementBatch | undefined

  /** @param capacity in parts */
  constructor(
    private readonly state: State,
    private readonly capacity: number,
  ) {}

  /** Free parts of the open batch; 0 when none is open. */
  get room(): number {
    return this.batch === undefined ? 0 : this.capacity - this.batch.parts
  }

  /** Closes the open batch, even if it has room. */
  seal(): void {
    this.batch = undefined
  }

  /** Allocates `parts` in the open batch, or in a new one if they do not fit. */
  take(parts: number): SettlementBatch {
    if (parts > this.capacity) throw new Error('a part exceeds the capacity of a settlement batch')
    if (this.batch === undefined || this.room < parts) this.batch = openBatch(this.state)
    this.batch.parts += parts
    return this.batch
  }
}

function openBatch(state: State): SettlementBatch {
  const { settlement } = state
  settlement.last_batch += 1
  const batch: SettlementBatch = {
    batch_id: settlement.last_batch,
    slot: state.slot,
    generation: settingsOf(state).generation,
    inputs: [],
    outputs: [],
    fills: [],
    payouts: [],
    reshapes: [],
    fees: state.mints.map(() => 0n),
    leaf_count_min: settlement.leaf_count_min,
    parts: 0,
    hashed: undefined,
    progress: 'built',
    signature: undefined,
    signed: undefined,
  }
  settlement.batches.set(batch.batch_id, batch)
  return batch
}

/** Orders and their lots: `orders[i]` trades `lots[i]`. */
export type Fills = { readonly orders: readonly Order[]; readonly lots: ArrayLike<number> }
/** The same for the part of the fills that belongs to one settlement batch. */
type Parts = { readonly orders: Order[]; readonly lots: number[] }

/**
 * Packs the fills of an auction so that each batch conserves every mint. Walks buys and sells with two pointers, matching
 * equal lots. When the next pair does not fit, the matched lots, equal on both sides, are added to the batch and the walk
 * continues in a new one, so an order has one part per batch (matching.md rule 7). Both sides must have equal sums of lots.
 */
export function packFills(state: State, packer: Packer, buys: Fills, sells: Fills, trade: Trade): void {
  let batch: SettlementBatch | undefined
  const parts: Parts = { orders: [], lots: [] }
  const buying = new Walk(buys)
  const selling = new Walk(sells)
  while (buying.left > 0 && selling.left > 0) {
    let fresh = buying.fresh + selling.fresh
    if (batch !== undefined && packer.room < fresh) {
      addParts(state, batch, parts, trade)
      batch = undefined
      buying.part = selling.part = NO_PART
      fresh = 2
    }
    if (fresh > 0) batch = packer.take(fresh)
    const lots = Math.min(buying.left, selling.left)
    buying.fill(lots, parts)
    selling.fill(lots, parts)
  }
  if (batch !== undefined) addParts(state, batch, parts, trade)
  if (buying.left > 0 || selling.left > 0) throw new Error('buys and sells of an auction differ')
}

/** Adds the parts to the batch and clears them. */
function addParts(state: State, batch: SettlementBatch, parts: Parts, trade: Trade): void {
  const { orders, lots } = parts
  for (let part = 0; part < orders.length; part++) addFill(state, batch, orders[part]!, lots[part]!, trade)
  orders.length = lots.length = 0
}

const NO_PART = -1

/** One side of the walk: the current order, its unmatched lots, and its part in the open batch. */
class Walk {
  left: number
  part = NO_PART
  private at = 0

  constructor(private readonly fills: Fills) {
    this.left = fills.lots[0] ?? 0
  }

  /** Parts that the next `fill` adds to the open batch. */
  get fresh(): number {
    return this.part === NO_PART ? 1 : 0
  }

  /** Moves lots of the current order to its part; advances to the next order when none are left. */
  fill(lots: number, parts: Parts): void {
    if (this.part === NO_PART) {
      this.part = parts.orders.push(this.fills.orders[this.at]!) - 1
      parts.lots.push(0)
    }
    parts.lots[this.part]! += lots
    this.left -= lots
    if (this.left > 0) return
    this.part = NO_PART
    this.left = this.fills.lots[++this.at] ?? 0
  }
}

type Waiting = Withdrawal | Reshape | Exit

/** A part is the space of one nullifier and two outputs with memos: 128 bytes of a transaction. */
const PART_BYTES = 128
const NULLIFIER_BYTES = 32
const OUTPUT_BYTES = 48
/** A payout with its nullifier, change and exit request. The record of a mint is needed once per batch. */
const PAYOUT_PARTS = 2
const PAYOUT_MINT_PARTS = 1

/**
 * Packs withdrawals, reshapes and served exits, oldest first. They join an open batch. They open a new one only when no batch
 * is on its way to the chain, when they fill one, or when the oldest has waited `payment_wait_slots_max`. Payouts wait while
 * the vault's queue has no room; reshapes do not wait for them.
 */
export function packPayments(state: State, packer: Packer): void {
  const { waiting, queue_capacity, payouts_open } = state.settlement
  let room = queue_capacity - payouts_open
  const ready = waiting.filter(({ kind }) => kind === 'reshape' || room-- > 0)
  const may_open = mayOpen(state, ready)
  const packed = new Set<Waiting>()
  for (const payment of ready) {
    const joins = packer.room >= partsOf(state, payment, packer.batch)
    if (!joins && !may_open) break
    if (!joins) packer.seal()
    packOne(state, packer.take(partsOf(state, payment, packer.batch)), payment)
    packed.add(payment)
  }
  waiting.splice(0, waiting.length, ...waiting.filter((payment) => !packed.has(payment)))
}

function mayOpen(state: State, ready: readonly Waiting[]): boolean {
  const first = ready[0]
  if (first === undefined) return false
  const idle = [...state.settlement.batches.values()].every(
    (batch) => batch.progress !== 'built' && batch.progress !== 'submitted',
  )
  const full = ready.length * PAYOUT_PARTS >= settingsOf(state).settlement_parts_max
  const waited = state.slot - first.accepted_slot >= LIMITS.payment_wait_slots_max
  return idle || full || waited
}

/** Parts that a payment needs in a batch; infinite if the batch already pays the maximum number of mints. */
function partsOf(state: State, payment: Waiting, batch: SettlementBatch | undefined): number {
  if (payment.kind === 'reshape') {
    const bytes = payment.inputs.length * NULLIFIER_BYTES + payment.amounts.length * OUTPUT_BYTES
    return Math.ceil(bytes / PART_BYTES)
  }
  const mints = new Set(batch?.payouts.map((payout) => mintOf(state, payout)))
  if (mints.has(mintOf(state, payment))) return PAYOUT_PARTS
  return mints.size < SETTLE_LIMITS.payout_mints ? PAYOUT_PARTS + PAYOUT_MINT_PARTS : Number.POSITIVE_INFINITY
}

function mintOf(state: State, payout: Withdrawal | Exit): string {
  return payout.kind === 'exit' ? payout.mint.toHex() : state.mints[payout.note.mint]!.bytes.toHex()
}

function packOne(state: State, batch: SettlementBatch, payment: Waiting): void {
  payment.settlement_batch = batch.batch_id
  if (payment.kind !== 'reshape') {
    payment.payout_number = state.settlement.next_payout++
    state.settlement.payouts_open += 1
  }
  if (payment.kind === 'withdrawal') packWithdrawal(state, batch, payment)
  else if (payment.kind === 'reshape') packReshape(state, batch, payment)
  else packExit(state, batch, payment)
}

function packWithdrawal(state: State, batch: SettlementBatch, withdrawal: Withdrawal): void {
  const { note, amount, fee } = withdrawal
  spendNote(state, batch, note)
  moveFees(state, batch, note.mint, fee)
  batch.payouts.push(withdrawal)
  withdrawal.change = createNote(
    state,
    batch,
    { owner: note.owner, mint: note.mint, amount: minus(note.amount, plus(amount, fee)), status: 'free' },
    { anchor: withdrawal.change_anchor, order_id: NO_ORDER_ID, nonce: withdrawal.nonce, index_role: 1 },
  )
  if (withdrawal.change !== undefined) state.notes.hold(withdrawal.change)
}

function packReshape(state: State, batch: SettlementBatch, reshape: Reshape): void {
  for (const note of reshape.inputs) spendNote(state, batch, note)
  const { owner, mint } = reshape.inputs[0]!
  reshape.outputs = reshape.amounts.map((amount, index) => {
    const source = { anchor: reshape.anchor, order_id: NO_ORDER_ID, nonce: reshape.nonce }
    const made = { owner, mint, amount, status: 'free' as const }
    return createNote(state, batch, made, { ...source, index_role: 2 * index + 1 })!
  })
  holdAll(state.notes, reshape.outputs)
  batch.reshapes.push(reshape)
}

function packExit(state: State, batch: SettlementBatch, exit: Exit): void {
  if (exit.note !== undefined) spendNote(state, batch, exit.note)
  else coverLeaf(state, batch, exit.leaf_index ?? state.leaves.indexOf(exit.commitment))
  batch.payouts.push(exit)
}

/**
 * Issues accrued fees as notes of the fee key, at most once per day and mint (protocol.md "Instruments and exact arithmetic").
 * Notes are unique: the blinding is Poseidon(4, fee_anchor, day, generation * 2^32 + 2 * mint_index).
 */
export function issueFees(state: State, packer: Packer): void {
  const { settlement } = state
  const day = Math.floor(state.unix_ms / MS_PER_DAY)
  if (day <= settlement.fee_day) return
  // A new or restored venue has no fees of a previous day.
  const first = settlement.fee_day === 0
  settlement.fee_day = day
  if (first) return
  for (const [mint, amount] of settlement.fees.entries()) {
    if (amount === 0n) continue
    const batch = packer.take(1)
    moveFees(state, batch, mint, -amount)
    createNote(
      state,
      batch,
      { owner: state.fee_key, mint, amount, status: 'free' },
      { anchor: state.fee_anchor, order_id: NO_ORDER_ID, nonce: BigInt(day), index_role: 2 * mint },
    )
  }
}

/** Does nothing once the batch of the exit has landed, and until it is hashed. */
export function dropExit(state: State, exit: Exit): void {
  const { exits, waiting } = state.settlement
  if (exit.settlement_batch > 0 && !unpackExit(state, exit)) return
  exits.delete(exit.nullifier.toHex())
  const at = waiting.indexOf(exit)
  if (at !== -1) waiting.splice(at, 1)
  if (exit.note === undefined) return
  if (exit.note.status === 'exiting') exit.note.status = 'free'
  state.notes.drop(exit.note)
}

/** False when the batch is not hashed or has landed. The note, if it is known, is unspent again. */
function unpackExit(state: State, exit: Exit): boolean {
  const { settlement } = state
  const batch = settlement.batches.get(exit.settlement_batch)
  if (batch?.hashed === undefined || batch.progress === 'confirmed') return false
  const { note } = exit
  const input = batch.inputs.findIndex((one) => one.is(note))
  const spent = note === undefined ? batch.inputs.length + unopenedExits(batch).indexOf(exit) : input
  batch.hashed = { ...batch.hashed, nullifiers: batch.hashed.nullifiers.toSpliced(spent, 1) }
  batch.payouts.splice(batch.payouts.indexOf(exit), 1)
  if (note !== undefined) {
    batch.inputs.splice(input, 1)
    note.spent_in = 0
    note.status = 'exiting'
    state.notes.drop(note)
  }
  renumber(state, exit.payout_number)
  appendAgain(state, batch.batch_id)
  return true
}

/** The program numbers payouts as it queues them, and none after this one is queued. */
function renumber(state: State, from: number): void {
  const { settlement } = state
  for (const { payouts } of settlement.batches.values())
    for (const payout of payouts) if (payout.payout_number > from) payout.payout_number -= 1
  settlement.next_payout -= 1
  settlement.payouts_open -= 1
}

/** Restores the nullifiers of this batch and the hashed ones behind it, which are all unlanded. */
function appendAgain(state: State, first: number): void {
  const { nullifiers, settlement } = state
  let end = nullifiers.size
  while (end > nullifiers.first && spentIn(nullifiers.at(end - 1)) >= first) end--
  nullifiers.truncate(end)
  for (let batch_id = first; batch_id <= settlement.last_hashed; batch_id++)
    appendSpent(state, batch_id, settlement.batches.get(batch_id)!.hashed!.nullifiers)
}

type Trade = {
  /** Clearing price; `quote_per_lot` is the value of one lot. */
  readonly price: Price
  readonly quote_per_lot: QuoteUnits
  /** Number of the auction. */
  readonly batch: number
}

export function tradeAt(terms: InstrumentTerms, ticks: Ticks, batch: number): Trade {
  return { quote_per_lot: quoteOf(terms, 1, ticks), price: priceOf(terms, ticks), batch }
}

/**
 * Also reduces the order in the book. The change note backs the remainder of the order at once, before its commitment is
 * known (protocol.md "Continuation anchors").
 */
function addFill(state: State, batch: SettlementBatch, order: Order, lots: Lots, trade: Trade): void {
  const { terms } = order.instrument
  const amount = baseOf(terms, lots)
  const quote_amount = BigInt(lots) * trade.quote_per_lot
  const traded = order.trading()
  const fill_index = traded.fills.length
  traded.cumulative_quote = plus(traded.cumulative_quote, quote_amount)
  const fee = minus(feeUpTo(traded.cumulative_quote, order.fee_bps), traded.cumulative_fee)
  traded.cumulative_fee = plus(traded.cumulative_fee, fee)
  moveFees(state, batch, terms.quote, fee)
  takeLots(order, lots)
  const { side } = order
  const [proceeds, change] = exchangeNotes(state, batch, order, {
    fill_index,
    taken: side === 'buy' ? amount : minus(quote_amount, fee),
    given: side === 'buy' ? plus(quote_amount, fee) : amount,
  })
  const fill: FillRecord = {
    account: order.key.account,
    order_id: order.id,
    fill_index,
    symbol: terms.symbol,
    side,
    price: trade.price,
    amount,
    quote_amount,
    fee,
    batch: trade.batch,
    settlement_batch: batch.batch_id,
    anchor_index: fill_index % order.anchor_count,
    slot: state.slot,
    proceeds,
    change,
    stage: 'matched',
    signature: undefined,
    seq: 0,
  }
  traded.fills.push(fill)
  holdFill(state.notes, fill)
  batch.fills.push(fill)
  state.settlement.unlanded += 1
}

/** Amounts an order receives and pays in one fill, including the fee. */
type Exchange = { fill_index: number; taken: Amount; given: Amount }

/** Spends the order's note and creates proceeds (role 0) and change (role 1). */
function exchangeNotes(
  state: State,
  batch: SettlementBatch,
  order: Order,
  { fill_index, taken, given }: Exchange,
): [proceeds: Note | undefined, change: Note | undefined] {
  const { id: order_id, key, nonce, collateral } = order
  const { terms } = order.instrument
  const owner = key.bytes
  const anchor = order.anchor(fill_index % order.anchor_count)
  const index_role = 2 * fill_index
  const rests = order.remaining > 0
  spendNote(state, batch, collateral)
  const proceeds = createNote(
    state,
    batch,
    { owner, key, mint: order.side === 'buy' ? terms.base : terms.quote, amount: taken, status: 'free' },
    { anchor, order_id, nonce, index_role },
  )
  const change = createNote(
    state,
    batch,
    {
      owner,
      key,
      mint: collateral.mint,
      amount: minus(collateral.amount, given),
      status: rests ? 'in_use' : 'free',
    },
    { anchor, order_id, nonce, index_role: index_role + 1 },
  )
  if (change !== undefined) order.collateral = change
  else if (rests) throw new Error('an order rests without collateral')
  return [proceeds, change]
}

function takeLots(order: Order, lots: Lots): void {
  order.instrument.book.reduce(order.handle, lots)
  order.status = 'partially_filled'
}
