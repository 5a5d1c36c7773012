/** Opens and closes orders: locks and frees the note, updates the book and every index, announces the change. */
import { equalBytes } from '../../../protocol/bytes'
import type { Amount, EventSeq } from '../../../protocol/units'
import type { CancelReason, EventKind } from '../../../protocol/wire/trading'
import type { NoteFact, PlaceFields } from '../../commands'
import { BUY, FOK, IOC, type Kind, LIMIT, SELL } from '../book/order_pool'
import { addExposure, keyOf, removeExposure } from '../state/account'
import { isMember } from '../state/closed'
import type { FinalOrder } from '../state/live_orders'
import { type Note, retiredOwner } from '../state/note'
import { IDENTITY_BYTES, type Order, type OrderFacts } from '../state/order'
import { type Effects, type Env, type RefusedOutcome, refuse } from '../state/outcome'
import { indexOf, type Past, rowAt } from '../state/past'
import type { State } from '../state/state'
import { orderView } from '../state/views'
import { bindKey } from './checks'
import type { PlacePlan } from './place'

export const BOOK_KIND: Record<Order['type'], Kind> = { limit: LIMIT, ioc: IOC, fok: FOK }

/** @param extra `replaces` is the id of a replaced order; `arrival_batch` is set if the new order keeps its age */
export function openOrder(
  state: State,
  fx: Effects,
  body: PlaceFields,
  plan: PlacePlan,
  extra: { origin: string | undefined; replaces?: Uint8Array; arrival_batch?: number | undefined },
): Order {
  const { instrument } = plan
  const key = bindKey(state, plan.signer)
  // A deferred modify opens its order after later commands of the key.
  if (body.nonce > key.place_nonce) key.place_nonce = body.nonce
  const order = restOrder(state, {
    order_id: body.order_id,
    key,
    instrument,
    side: body.side,
    type: body.type,
    lots: plan.lots,
    ticks: plan.ticks,
    min_lots: plan.min_lots,
    fee_bps: instrument.terms.fee_bps,
    expiry_slot: body.expiry_slot,
    arrival_slot: state.slot,
    arrival_batch: extra.arrival_batch ?? instrument.next_batch,
    nonce: body.nonce,
    anchors: body.anchors,
    digest: body.digest,
    origin: extra.origin,
    replaces: extra.replaces,
    seq: key.account.seq + 1,
    remaining: plan.lots,
    status: 'accepted',
    collateral: lockNote(state, plan.note),
    traded: undefined,
  })
  fx.emit(key.account, 'order.accepted', (seq) => orderView(order, { seq, status: 'accepted' }))
  return order
}

/** Adds an order to the book and every index, for new orders and for those of a snapshot. */
export function restOrder(state: State, facts: OrderFacts): Order {
  const { instrument, key } = facts
  const handle = instrument.book.add({
    side: facts.side === 'buy' ? BUY : SELL,
    kind: BOOK_KIND[facts.type],
    tick: facts.ticks,
    lots: facts.remaining,
    min_fill: facts.min_lots,
    arrival_batch: facts.arrival_batch,
    order_id: facts.order_id,
  })
  const order = state.orders.add(handle, facts)
  addExposure(facts)
  key.account.live += 1
  instrument.live += 1
  return order
}

/** A buffer that every closing order reuses. */
const IDENTITY = new Uint8Array(IDENTITY_BYTES)

type Ending = {
  status: FinalOrder['status']
  reason?: CancelReason
  /** Id of the replacement. */
  replaced_by?: string
}

/** Returns the seq of the closing event. Fully filled orders have already left the book. */
export function endOrder(state: State, fx: Effects, order: Order, ending: Ending): EventSeq {
  const { instrument, key } = order
  const { status, reason, replaced_by } = ending
  removeExposure(order)
  key.account.live -= 1
  instrument.live -= 1
  releaseNote(order.collateral)
  order.readIdentity(IDENTITY)
  state.finals.add(IDENTITY, {
    key: key.index,
    status,
    reason,
    arrival_slot: order.arrival_slot,
    expiry_slot: order.expiry_slot,
    replaces: order.has_replaced,
    seq: order.seq,
    final_unix_ms: state.unix_ms,
  })
  const kind: EventKind = reason === 'replaced' ? 'order.replaced' : `order.${status}`
  const seq = fx.emit(key.account, kind, (seq) => orderView(order, { seq, status, reason, replaced_by }))
  // The row still reads the columns of the book, so it is removed first. The last fill has already removed the order there.
  const rests = order.remaining > 0
  const { handle } = order
  state.orders.remove(order)
  if (rests) instrument.book.remove(handle)
  return seq
}

/** Cancels several orders for one reason: members of a closed batch after its decision. */
export function cancelOrders(state: State, fx: Effects, orders: Iterable<Order>, reason: CancelReason): void {
  for (const order of [...orders]) {
    const { key, id: order_id } = order
    if (!isMember(order)) endOrder(state, fx, order, { status: 'cancelled', reason })
    else state.closed!.end({ kind: 'cancel', number: 0, key, cancel_nonce: 0n, order_id, reason })
  }
}

/** A note that is not in the state yet, from its opening. */
type OpenedNote = {
  owner: Uint8Array
  mint: number
  amount: Amount
  commitment: Uint8Array
  blinding: Uint8Array
  leaf_index: number
}
/** A `fresh` note is registered when the command is applied. */
export type NoteFound = { ok: true; note: Note; fresh: false } | { ok: true; note: OpenedNote; fresh: true }

type Wanted = {
  commitment: Uint8Array
  opening: NoteFact | undefined
  /** The signing key. */
  owner: Uint8Array
  /** Index of the required mint; undefined = any configured mint. */
  mint: number | undefined
  /** A note in use that this command releases (modify). */
  released?: Note | undefined
}

/**
 * Refuses, in this order, `note_unknown`, `note_wrong_mint`, `note_spent` and `note_in_use` (protocol.md "Order of
 * checks"). A note of another key is unknown, whether or not the venue knows it.
 */
export function checkNote(state: State, wanted: Wanted, { past }: Env): NoteFound | RefusedOutcome {
  const known = state.notes.find(wanted.commitment)
  if (known === undefined) return checkForgotten(state, wanted, past) ?? checkOpening(state, wanted, past)
  if (!equalBytes(known.owner, wanted.owner)) return refuse('note_unknown')
  if (wanted.mint !== undefined && known.mint !== wanted.mint) return refuse('note_wrong_mint')
  if (known.status === 'spent') return refuse('note_spent')
  if (known.status !== 'free' && !known.is(wanted.released)) return refuse('note_in_use')
  return { ok: true, note: known, fresh: false }
}

/** After a note is spent in a finalized batch, the state keeps only its owner. */
function checkForgotten(state: State, wanted: Wanted, past: Past | undefined): RefusedOutcome | undefined {
  const number = indexOf(state, past, 'retired', wanted.commitment)
  if (number === undefined) return undefined
  const owner = retiredOwner(rowAt(state, past, 'retired', number))
  return refuse(keyOf(state, wanted.owner)?.index === owner ? 'note_spent' : 'note_unknown')
}

function checkOpening(state: State, wanted: Wanted, past: Past | undefined): NoteFound | RefusedOutcome {
  const { commitment, opening } = wanted
  // The commitment covers the owner, which is the signing key, so the note of another key never opens.
  if (opening === undefined || !equalBytes(opening.commitment, commitment)) return refuse('note_unknown')
  if (!isLeaf(state, opening)) return refuse('note_unknown')
  const mint = state.mints.findIndex((one) => equalBytes(one.bytes, opening.mint))
  if (mint === -1 || (wanted.mint !== undefined && mint !== wanted.mint)) return refuse('note_wrong_mint')
  if (indexOf(state, past, 'nullifiers', opening.nullifier) !== undefined) return refuse('note_spent')
  if (state.settlement.exits.has(opening.nullifier.toHex())) return refuse('note_in_use')
  const { amount, blinding, leaf: leaf_index } = opening
  const note = { owner: wanted.owner, mint, amount, commitment, blinding, leaf_index }
  return { ok: true, note, fresh: true }
}

/** Intake has found the leaf; it is compared as long as the state has it. */
function isLeaf({ leaves }: State, { commitment, leaf_index, leaf }: NoteFact): boolean {
  if (leaf >= leaves.size || (leaf_index ?? leaf) !== leaf) return false
  return leaf < leaves.first || equalBytes(leaves.at(leaf), commitment)
}

/** Locks a note; registers it first if it is fresh. The key of its owner must be bound. */
export function lockNote(state: State, found: NoteFound): Note {
  const note = found.fresh ? openedNote(state, found.note) : found.note
  note.status = 'in_use'
  return note
}

function openedNote(state: State, opened: OpenedNote): Note {
  const known = state.notes.find(opened.commitment)
  if (known !== undefined) return known
  const note = state.notes.create({ ...opened, status: 'free', landed: true })
  state.notes.register(note)
  return note
}

/** Unlocks a note unless it is spent or exiting. */
export function releaseNote(note: Note): void {
  if (note.status === 'in_use') note.status = 'free'
}
