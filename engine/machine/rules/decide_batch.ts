/** Closes a batch, and applies the chain's decision: its auctions or none, then the commands that waited for it. */
import { auctionHash } from '../../../protocol/bodies/auction_export'
import type { RefusalCode } from '../../../protocol/refusals'
import type { SlotNumber, Ticks } from '../../../protocol/units'
import type { CommandOf } from '../../commands'
import { LIMITS, MS_PER_DAY } from '../../limits'
import { cross, type SideFills } from '../book/cross'
import { type Fills, issueFees, Packer, packFills, packPayments, tradeAt } from '../settlement/pack'
import type { Account } from '../state/account'
import { ClosedBatch, isMember, type WaitingCancel, type WaitingModify } from '../state/closed'
import { type InstrumentState, instrumentOf } from '../state/instrument'
import { dropAll, notesOfPayment } from '../state/note'
import type { Order } from '../state/order'
import { type Answer, type AuctionRecord, type Effects, type RefusedOutcome, refuse } from '../state/outcome'
import { type State, settingsOf } from '../state/state'
import { orderView } from '../state/views'
import { fireTimers } from './cancel'
import { endAll } from './chain_facts'
import { cancelOrders, endOrder } from './order_life'
import { applyWaitingModify } from './place'
import { applyExit } from './settled'

/** The reference that a batch may use now; undefined: the instrument holds no auction, and its orders rest. */
function usableReference(state: State, instrument: InstrumentState): Ticks | undefined {
  const { reference_policy, symbol } = instrument.terms
  if (reference_policy === 'last') return instrument.reference_ticks
  const rule = state.settings?.reference_sources?.find((one) => one.symbol === symbol)
  if (rule === undefined) return undefined
  // The price may be from a source that has been removed from the settings.
  if (!rule.sources.some(({ source }) => source === instrument.reference_source)) return undefined
  const age_ms = state.unix_ms - instrument.reference_unix_ms
  return age_ms <= rule.max_age_ms ? instrument.reference_ticks : undefined
}

/**
 * The instruments of a close now; empty while none may be. No order changes it: an empty book closes like a full one.
 * A close is postponed while too many fills are not on chain.
 */
export function dueInstruments(state: State): { symbol: string; batch: number; reference_ticks: Ticks }[] {
  const { unlanded } = state.settlement
  const busy = state.closed !== undefined || unlanded > LIMITS.unlanded_auction_max
  if (busy || state.halted !== undefined) return []
  return [...state.instruments.values()].flatMap((instrument) => {
    const reference_ticks = usableReference(state, instrument)
    if (instrument.status !== 'active' || reference_ticks === undefined) return []
    return [{ symbol: instrument.terms.symbol, batch: instrument.next_batch, reference_ticks }]
  })
}

/** Fixes members, references, seeds and capacity. @throws Error when this state would close another batch */
export function applyClosed(state: State, command: CommandOf<'closed'>): Answer {
  const due = dueInstruments(state)
  const agrees =
    due.length > 0 &&
    due.length === command.due.length &&
    due.every((one, at) => {
      const { symbol, batch, reference_ticks } = command.due[at]!
      return one.symbol === symbol && one.batch === batch && one.reference_ticks === reference_ticks
    })
  if (!agrees) throw new Error('the journal closes another batch than this state')
  const rows = command.due.map(({ symbol, batch, reference_ticks, seed }) => {
    const instrument = instrumentOf(state, symbol)
    instrument.next_batch = batch + 1
    return { instrument, batch, reference_ticks, seed }
  })
  state.closed = new ClosedBatch(command.seq, state.slot, command.capacity, rows)
  return { kind: 'done' }
}

/**
 * Matches or voids the closed batch; then act, in this order: deferred commands, expiries, timers and closed sockets, a freeze.
 * @throws Error when the decision is about another batch
 */
export function applyDecided(state: State, fx: Effects, { seq, outcome }: CommandOf<'decided'>): Answer {
  const { closed } = state
  if (closed?.seq !== seq) throw new Error('the chain decided another batch')
  const packer = new Packer(state, closed.capacity)
  if (outcome === 'committed') {
    for (const due of closed.due) {
      if (due.instrument.live > 0) holdAuction(state, fx, packer, { slot: closed.slot, due })
    }
  } else announceVoid(state, fx, closed)
  for (const { instrument } of closed.due) instrument.book.open()
  state.closed = undefined
  for (const one of closed.waiting) {
    if (one.kind === 'exit')
      applyExit(state, fx, { kind: 'exit_requested', unix_ms: state.unix_ms, request: one.request })
    else actOn(state, fx, one)
  }
  expireOrders(state, fx)
  for (const { order_id, reason } of closed.endings) {
    const order = state.orders.find(order_id)
    if (order !== undefined) cancelOrders(state, fx, [order], reason)
  }
  if (state.halted === undefined) packPayments(state, packer)
  if (state.halted === 'vault_frozen') endAll(state, fx)
  return { kind: 'done' }
}

/** One event per account and instrument with members, in the order of the members' arrival. */
function announceVoid(state: State, fx: Effects, { due, slot: close_slot }: ClosedBatch): void {
  const told = new Map<InstrumentState, Set<Account>>(due.map(({ instrument }) => [instrument, new Set()]))
  for (const order of state.orders.values()) {
    const { instrument, key, arrival_batch } = order
    if (instrument.book.isMember(arrival_batch)) told.get(instrument)!.add(key.account)
  }
  for (const [{ terms, next_batch }, accounts] of told) {
    const data = { symbol: terms.symbol, batch: next_batch - 1, close_slot }
    for (const account of accounts) fx.emit(account, 'batch.voided', () => data)
  }
}

function actOn(state: State, fx: Effects, waiting: WaitingCancel | WaitingModify): void {
  const result =
    waiting.kind === 'cancel' ? cancelNow(state, fx, waiting) : applyWaitingModify(state, fx, waiting)
  if ('code' in result) announceRefusal(state, fx, waiting, result.code)
  if (waiting.number > 0) fx.settle(waiting.number, result)
}

function cancelNow(state: State, fx: Effects, { order_id, reason }: WaitingCancel): Answer | RefusedOutcome {
  const order = state.orders.find(order_id)
  if (order === undefined) {
    const final = state.finals.find(order_id)
    return final === undefined ? refuse('order_unknown') : refuse('order_final', { status_now: final.status })
  }
  const seq = endOrder(state, fx, order, { status: 'cancelled', reason })
  return { kind: 'cancel', result: { order_id: order_id.toHex(), status: 'cancelled', seq } }
}

/** With the whole order while it lives, so that readers see that nothing is pending any more. */
function announceRefusal(
  state: State,
  fx: Effects,
  waiting: WaitingCancel | WaitingModify,
  code: RefusalCode,
): void {
  const { account } = waiting.key
  const order_id = waiting.kind === 'cancel' ? waiting.order_id : waiting.command.cancel.order_id
  const order = state.orders.find(order_id)
  const [kind, refused] =
    waiting.kind === 'cancel'
      ? (['order.cancel_refused', { code }] as const)
      : ([
          'order.replace_refused',
          { code, replacement: waiting.command.replacement.order_id.toHex() },
        ] as const)
  fx.emit(account, kind, (seq) =>
    order === undefined
      ? { order_id: order_id.toHex(), ...refused }
      : orderView(order, { seq, status: order.status, ...refused }),
  )
}

/** Only members are on the levels of the book. */
function holdAuction(
  state: State,
  fx: Effects,
  packer: Packer,
  { slot, due }: { slot: SlotNumber; due: ClosedBatch['due'][number] },
): void {
  const { instrument, batch, reference_ticks, seed } = due
  const { terms, book } = instrument
  const result = cross(book, {
    reference: reference_ticks,
    collar_bps: terms.collar_bps,
    price_rule: terms.price_rule,
    volume_tolerance_bps: terms.volume_tolerance_bps,
    seed,
  })
  const buys = fillsOf(state, result.buys)
  const sells = fillsOf(state, result.sells)
  const remainders = result.remainders.map((handle) => state.orders.at(handle))
  // Reads the ids now: below, filled and cancelled orders end.
  const fills: AuctionRecord['fills'] = []
  for (const { orders, lots } of [buys, sells]) {
    for (let at = 0; at < orders.length; at++) fills.push({ order_id: orders[at]!.order_id, lots: lots[at]! })
  }
  const cancelled = remainders.map((order) => order.order_id)
  if (result.price !== null) {
    packFills(state, packer, buys, sells, tradeAt(terms, result.price, batch))
    for (const order of buys.orders) announceFill(state, fx, order)
    for (const order of sells.orders) announceFill(state, fx, order)
  }
  for (const order of remainders) {
    const reason = order.type === 'fok' ? 'fok_unfilled' : 'ioc_remainder'
    endOrder(state, fx, order, { status: 'cancelled', reason })
  }
  moveReference(instrument, result.price ?? result.drift)
  const record: Omit<AuctionRecord, 'result_hash'> = {
    symbol: terms.symbol,
    batch,
    slot,
    reference_ticks,
    seed,
    price_ticks: result.price,
    volume_lots: result.volume,
    fills: fills.sort((a, b) => (a.order_id < b.order_id ? -1 : 1)),
    cancelled: cancelled.sort(),
  }
  fx.auctions.push({ ...record, result_hash: auctionHash(record) })
}

function fillsOf(state: State, side: SideFills): Fills {
  const orders: Order[] = []
  for (const handle of side.handles) orders.push(state.orders.at(handle))
  return { orders, lots: side.lots }
}

function announceFill(state: State, fx: Effects, order: Order): void {
  if (order.remaining === 0) {
    endOrder(state, fx, order, { status: 'filled' })
    return
  }
  const { account } = order.key
  fx.emit(account, 'order.partially_filled', (seq) => orderView(order, { seq, status: 'partially_filled' }))
}

/** Under policy `last` the next reference is the clearing price, or the collar edge beyond which orders crossed. */
function moveReference(instrument: InstrumentState, ticks: Ticks | null): void {
  if (ticks === null || instrument.terms.reference_policy !== 'last') return
  instrument.reference_ticks = ticks
  instrument.book.recenter(ticks)
}

/** Ignores a slot that is not newer. A close at this slot is a separate command. */
export function applySlot(state: State, fx: Effects, command: CommandOf<'slot'>): Answer {
  if (command.slot <= state.slot) return { kind: 'done' }
  state.slot = command.slot
  state.reopens_slot = Math.max(state.reopens_slot, command.reopens_slot)
  expireOrders(state, fx)
  fireTimers(state, fx)
  if (state.halted === undefined) {
    const packer = new Packer(state, settingsOf(state).settlement_parts_max)
    issueFees(state, packer)
    packPayments(state, packer)
  }
  forgetEnded(state)
  return { kind: 'done' }
}

/**
 * Expires orders after their expiry slot, by slot and id, so that the result does not depend on the order of arrival.
 * Members of a closed batch wait for its decision.
 */
function expireOrders(state: State, fx: Effects): void {
  for (const due of state.orders.dueUpTo(state.slot - 1)) {
    const orders = due.filter((order) => !isMember(order))
    orders.sort((a, b) => (a.order_id < b.order_id ? -1 : 1))
    for (const order of orders) endOrder(state, fx, order, { status: 'expired' })
  }
}

/**
 * Drops ended payments after their retention and the expiry slot of their body, so that a resend fails on its expiry
 * (protocol.md "Order of checks"), and the oldest ended ones beyond the bound: a resend fails on its nonce then. One that has not
 * ended, for which a destination can care for days, holds up none behind it; their number is bounded by the backlog.
 */
function forgetEnded(state: State): void {
  const retained_ms = state.unix_ms - settingsOf(state).retention_days * MS_PER_DAY
  const { slot } = state
  const { payments } = state.settlement
  for (const [id, payment] of payments) {
    if (payment.ended_unix_ms === 0) continue
    const old = payment.ended_unix_ms < retained_ms && payment.expiry_slot < slot
    if (!old && payments.size <= LIMITS.payments_kept_max) break
    payments.delete(id)
    dropAll(state.notes, notesOfPayment(payment))
  }
}
