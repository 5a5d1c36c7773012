/** Settles one part of an order in a settlement batch: its note in, proceeds and change out, its share of the fee. */
import { feeUpTo } from '../../protocol/units'
import { baseOf, quoteOf } from '../state/instrument'
import type { FillRecord, Order } from '../state/order'
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
  order.cumulative_quote += quote_amount
  const fee = feeUpTo(order.cumulative_quote, terms.fee_bps) - order.cumulative_fee
  order.cumulative_fee += fee
  const input = order.collateral
  spendNote(state, batch, input)
  moveFees(state, batch, terms.quote, fee)
  takeLots(order, lots)

  const buys = order.side === 'buy'
  const made = {
    proceeds: buys ? amount : quote_amount - fee,
    change: input.amount - (buys ? quote_amount + fee : amount),
  }
  const fill_index = order.fills.length
  const anchor_index = fill_index % (order.anchors.length / 32)
  const owner = order.key.text
  const source = (role: 0 | 1) => ({
    anchor: order.anchors.subarray(anchor_index * 32, anchor_index * 32 + 32),
    order_id: order.order_id,
    nonce: order.nonce,
    index_role: 2 * fill_index + role,
  })
  const [into, from] = buys ? [terms.base, terms.quote] : [terms.quote, terms.base]
  const proceeds = createNote(batch, { owner, mint: into, amount: made.proceeds, status: 'free' }, source(0))
  const status = order.remaining > 0 ? 'in_use' : 'free'
  const change = createNote(batch, { owner, mint: from, amount: made.change, status }, source(1))
  if (change !== undefined) order.collateral = change
  else if (order.remaining > 0) throw new Error('an order rests without collateral')

  const fill: FillRecord = {
    account: order.key.account,
    order_id: order.order_id,
    fill_index,
    symbol: terms.symbol,
    side: order.side,
    price: BigInt(trade.ticks) * terms.tick_size,
    amount,
    quote_amount,
    fee,
    batch: trade.batch,
    settlement_batch: batch.batch_id,
    anchor_index,
    slot: state.slot,
    proceeds,
    change,
    stage: 'matched',
    signature: undefined,
    seq: 0,
  }
  order.fills.push(fill)
  batch.fills.push(fill)
  state.settlement.unlanded += 1
}

function takeLots(order: Order, lots: number): void {
  const rest = order.instrument.book.reduce(order.handle, lots)
  order.remaining -= lots
  if (rest !== order.remaining) throw new Error('order and book disagree on what remains')
  order.status = 'partially_filled'
}
