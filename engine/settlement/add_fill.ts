/** Settles one part of an order in a settlement batch: its note in, proceeds and change out, its share of the fee. */
import { feeUpTo } from '../../protocol/units'
import type { FillRecord } from '../state/fill_record'
import { baseOf, quoteOf } from '../state/instrument'
import { holdAll, notesOfFills } from '../state/note_holders'
import type { Order } from '../state/order'
import type { State } from '../state/state'
import type { SettlementBatch } from './batch'
import { createNote, moveFees, spendNote } from './batch_entries'

export type Trade = {
  /** Clearing price in ticks. */
  ticks: number
  /** Number of the auction. */
  batch: number
}

/**
 * Also takes the lots off the order and the book. The change note backs what remains of the order from here on, before
 * anyone knows its commitment (protocol.md "Continuation anchors").
 */
export function addFill(
  state: State,
  batch: SettlementBatch,
  order: Order,
  lots: number,
  trade: Trade,
): void {
  const { terms } = order.instrument
  const amount = baseOf(terms, lots)
  const quote_amount = quoteOf(terms, lots, trade.ticks)
  const traded = order.trading()
  traded.cumulative_quote += quote_amount
  const fee = feeUpTo(traded.cumulative_quote, terms.fee_bps) - traded.cumulative_fee
  traded.cumulative_fee += fee
  moveFees(state, batch, terms.quote, fee)
  takeLots(order, lots)
  const fill: FillRecord = {
    account: order.key.account,
    order_id: order.order_id,
    fill_index: traded.fills.length,
    symbol: terms.symbol,
    side: order.side,
    price: BigInt(trade.ticks) * terms.tick_size,
    amount,
    quote_amount,
    fee,
    batch: trade.batch,
    settlement_batch: batch.batch_id,
    anchor_index: traded.fills.length % order.anchor_count,
    slot: state.slot,
    ...exchangeNotes(state, batch, order, { amount, quote_amount, fee }),
    stage: 'matched',
    signature: undefined,
    seq: 0,
  }
  traded.fills.push(fill)
  holdAll(state.notes, notesOfFills([fill]))
  batch.fills.push(fill)
  state.settlement.unlanded += 1
}

/** Spends the order's note and makes proceeds (role 0) and change (role 1) of it. */
function exchangeNotes(
  state: State,
  batch: SettlementBatch,
  order: Order,
  { amount, quote_amount, fee }: { amount: bigint; quote_amount: bigint; fee: bigint },
): Pick<FillRecord, 'proceeds' | 'change'> {
  const { terms } = order.instrument
  const buys = order.side === 'buy'
  const fill_index = order.fills.length
  const anchor = order.anchor(fill_index % order.anchor_count)
  const { order_id, nonce, collateral: input } = order
  const source = (role: 0 | 1) => ({ anchor, order_id, nonce, index_role: 2 * fill_index + role })
  const owner = order.key.text
  const into = {
    owner,
    mint: buys ? terms.base : terms.quote,
    amount: buys ? amount : quote_amount - fee,
    status: 'free' as const,
  }
  const back = {
    owner,
    mint: input.mint,
    amount: input.amount - (buys ? quote_amount + fee : amount),
    status: order.remaining > 0 ? ('in_use' as const) : ('free' as const),
  }
  spendNote(state, batch, input)
  const proceeds = createNote(state, batch, into, source(0))
  const change = createNote(state, batch, back, source(1))
  if (change !== undefined) order.collateral = change
  else if (order.remaining > 0) throw new Error('an order rests without collateral')
  return { proceeds, change }
}

function takeLots(order: Order, lots: number): void {
  order.instrument.book.reduce(order.handle, lots)
  order.status = 'partially_filled'
}
