/** Builds the wire objects of orders, fills, withdrawals and reshapes. */
import { encodeBase58 } from '../../../protocol/base58'
import { noteInner, outputBlinding, settlementCommitment } from '../../../protocol/notes/notes'
import type { EventSeq, Lots } from '../../../protocol/units'
import type * as wire from '../../../protocol/wire/trading'
import { type Exit, NO_ORDER_ID, type Reshape, type Withdrawal } from './batch'
import { baseOf, type InstrumentTerms, priceOf } from './instrument'
import type { FinalOrder } from './live_orders'
import type { FillRecord, Order } from './order'
import type { PlaceAnswer } from './outcome'
import { type State, settingsOf } from './state'

const NO_COMMITMENT = '0'.repeat(64)

/** The fields of a wire order that depend on the event. */
type OrderVersion = {
  seq: EventSeq
  status: wire.OrderStatus
  reason?: wire.CancelReason | undefined
  replaced_by?: string | undefined
  pending?: wire.Order['pending']
  code?: wire.Order['code']
  replacement?: string | undefined
}

/** A complete order. Its fills are those with known commitments; later ones follow as separate events. */
export function orderView(order: Order, version: OrderVersion): wire.Order {
  const { terms } = order.instrument
  const { lots, remaining } = order
  const amount = baseOf(terms, lots).toString()
  const view: wire.Order = {
    order_id: order.order_id,
    trading_key: order.key.text,
    symbol: terms.symbol,
    side: order.side,
    type: order.type,
    amount,
    filled_amount: remaining === 0 ? amount : amountText(terms, lots - remaining),
    remaining_amount: remaining === lots ? amount : amountText(terms, remaining),
    price_limit: priceOf(terms, order.ticks).toString(),
    min_fill: amountText(terms, order.min_lots),
    expiry_slot: order.expiry_slot,
    arrival_slot: order.arrival_slot,
    status: version.status,
    fills: knownFills(order.fills),
    seq: version.seq,
  }
  if (version.reason !== undefined) view.reason = version.reason
  if (order.replaces !== undefined) view.replaces = order.replaces
  if (version.replaced_by !== undefined) view.replaced_by = version.replaced_by
  if (version.pending !== undefined) view.pending = version.pending
  if (version.code !== undefined) view.code = version.code
  if (version.replacement !== undefined) view.replacement = version.replacement
  return view
}

/** Zero is by far the most common amount. */
function amountText(terms: InstrumentTerms, lots: Lots): string {
  return lots === 0 ? '0' : baseOf(terms, lots).toString()
}

function knownFills(fills: readonly FillRecord[]): wire.Fill[] {
  const views: wire.Fill[] = []
  for (const fill of fills) if (fill.seq > 0) views.push(fillView(fill))
  return views
}

/** A fill at its newest stage. Its proceeds commitment is all zeros if the fee consumed the proceeds, which create no note. */
export function fillView(fill: FillRecord, seq = fill.seq): wire.Fill {
  const view: wire.Fill = {
    seq,
    order_id: fill.order_id.toHex(),
    fill_index: fill.fill_index,
    symbol: fill.symbol,
    side: fill.side,
    price: fill.price.toString(),
    amount: fill.amount.toString(),
    quote_amount: fill.quote_amount.toString(),
    fee: fill.fee.toString(),
    batch: fill.batch,
    settlement_batch: fill.settlement_batch,
    stage: fill.stage,
    anchor_index: fill.anchor_index,
    proceeds_commitment: fill.proceeds?.commitment?.toHex() ?? NO_COMMITMENT,
    slot: fill.slot,
  }
  const change = fill.change?.commitment
  if (change !== undefined) view.change_commitment = change.toHex()
  if (fill.signature !== undefined) view.signature = fill.signature
  return view
}

/** The answer to the place command that created this order. */
export function placeAnswer(order: Order | FinalOrder): PlaceAnswer {
  return { order_id: order.order_id, status: 'accepted', arrival_slot: order.arrival_slot, seq: order.seq }
}

export function withdrawalView(withdrawal: Withdrawal, seq = withdrawal.seq): wire.Withdrawal {
  const view: wire.Withdrawal = {
    withdrawal_id: withdrawal.withdrawal_id,
    commitment: withdrawal.commitment.toHex(),
    destination: encodeBase58(withdrawal.destination),
    amount: withdrawal.amount.toString(),
    fee: withdrawal.fee.toString(),
    status: withdrawal.status,
    seq,
  }
  const change = withdrawal.change?.commitment
  if (change !== undefined) view.change_commitment = change.toHex()
  if (withdrawal.settlement_batch > 0) view.settlement_batch = withdrawal.settlement_batch
  if (withdrawal.signature !== undefined) view.signature = withdrawal.signature
  return Object.assign(view, payoutView(withdrawal))
}

export function exitView(exit: Exit, status: wire.ExitEvent['status']): wire.ExitEvent {
  const view: wire.ExitEvent = {
    nullifier: exit.nullifier.toHex(),
    commitment: exit.commitment.toHex(),
    mint: encodeBase58(exit.mint),
    amount: exit.amount.toString(),
    destination: encodeBase58(exit.destination),
    deadline: exit.deadline_unix_s,
    status,
  }
  if (exit.settlement_batch > 0) view.settlement_batch = exit.settlement_batch
  return Object.assign(view, payoutView(exit))
}

/** Leaves out fields that are not known yet. */
function payoutView({
  payout_number,
  payout_stage,
  payout_signature,
  refund_commitment,
}: Withdrawal | Exit): Pick<
  wire.ExitEvent,
  'payout_number' | 'payout_stage' | 'payout_signature' | 'refund_commitment'
> {
  return {
    ...(payout_number > 0 ? { payout_number } : {}),
    ...(payout_stage === undefined ? {} : { payout_stage }),
    ...(payout_signature === undefined ? {} : { payout_signature }),
    ...(refund_commitment === undefined ? {} : { refund_commitment: refund_commitment.toHex() }),
  }
}

export function reshapeView(state: State, reshape: Reshape, seq = reshape.seq): wire.Reshape {
  const view: wire.Reshape = {
    reshape_id: reshape.reshape_id,
    inputs: reshape.commitments.map((one) => one.toHex()),
    outputs: outputsOf(state, reshape),
    status: reshape.status,
    seq,
  }
  if (reshape.settlement_batch > 0) view.settlement_batch = reshape.settlement_batch
  if (reshape.signature !== undefined) view.signature = reshape.signature
  return view
}

/** Outputs of its settlement batch; before it is hashed, derived from the request in the same way; none of a voided reshape. */
function outputsOf(state: State, reshape: Reshape): wire.Reshape['outputs'] {
  if (reshape.status === 'voided') return []
  return reshape.amounts.map((amount, index) => {
    const commitment = reshape.outputs[index]?.commitment ?? reshapeCommitment(state, reshape, index)
    return { commitment: commitment.toHex(), amount: amount.toString() }
  })
}

function reshapeCommitment(state: State, reshape: Reshape, index: number): Uint8Array {
  const { anchor, nonce, key } = reshape
  const { generation } = settingsOf(state)
  const place = { order_id: NO_ORDER_ID, generation, index_role: 2 * index + 1 }
  const inner = noteInner(key.bytes, outputBlinding({ anchor, nonce, ...place }))
  const mint = state.mints[reshape.inputs[0]!.mint]!.bytes
  return settlementCommitment({ mint, amount: reshape.amounts[index]!, inner })
}
