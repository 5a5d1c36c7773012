/** Adds one fill of an order to a settlement batch: spends its note, creates proceeds and change, accrues the fee. */
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
import { createNote, moveFees, type SettlementBatch, spendNote } from '../state/batch'
import { baseOf, type InstrumentTerms, priceOf, quoteOf } from '../state/instrument'
import { holdFill, type Note } from '../state/note'
import type { FillRecord, Order } from '../state/order'
import type { State } from '../state/state'

export type Trade = {
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
export function addFill(state: State, batch: SettlementBatch, order: Order, lots: Lots, trade: Trade): void {
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
