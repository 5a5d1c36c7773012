/**
 * The JSON shapes both sides speak: request bodies, resources, list pages and stream frames.
 *
 * Forms (protocol.md "Values on the wire"): keys, mints and transaction signatures are base58; ids, commitments,
 * anchors, hashes and order signatures are lowercase hex of exact width; u64 values are canonical decimal strings;
 * slots, seq, milliseconds and indexes are JSON integers up to 2^53-1.
 *
 * Shapes of the public reads (instruments, status, trees, attestation) are in protocol/wire/public.ts.
 */
export type * from './public'

export type Side = 'buy' | 'sell'
export type OrderType = 'limit' | 'ioc' | 'fok'

/** Opens a note the venue does not know; pinned by the signed commitment. `leaf_index` exactly for deposit-form notes. */
export type NoteOpening = { mint: string; amount: string; blinding: string; leaf_index?: number }

/** A place body without `signature`: the body of POST /orders/check. */
export type CheckRequest = {
  order_id: string
  trading_key: string
  symbol: string
  side: Side
  type: OrderType
  amount: string
  price_limit: string
  min_fill?: string
  expiry_slot: number
  nonce: string
  collateral_commitment: string
  continuation_anchors: string[]
  opening?: NoteOpening
}
export type PlaceRequest = CheckRequest & { signature: string }
export type CancelRequest = { trading_key: string; cancel_nonce: string; signature: string }
export type ModifyRequest = { cancel_nonce: string; cancel_signature: string; replacement: PlaceRequest }
export type CancelAllRequest = {
  trading_key: string
  symbol?: string
  cancel_nonce: string
  signature: string
}
export type DeadManRequest = {
  trading_key: string
  cancel_nonce: string
  timeout_slots: number
  signature: string
}
export type WithdrawalRequest = {
  trading_key: string
  commitment: string
  destination: string
  amount: string
  nonce: string
  expiry_slot: number
  change_anchor: string
  signature: string
  opening?: NoteOpening
}
export type ReshapeRequest = {
  trading_key: string
  inputs: string[]
  amounts: string[]
  anchor: string
  nonce: string
  expiry_slot: number
  signature: string
  openings?: (NoteOpening | null)[]
}

/** Proof that a command is in the journal (engine.md "Receipts"); protocol/bodies/receipt.ts checks it. */
export type Receipt = {
  epoch: number
  seq: number
  head: string
  root: string
  index: number
  path: string[]
  signature: string
}

export type OrderStatus = 'accepted' | 'partially_filled' | 'filled' | 'cancelled' | 'expired'
export type CancelReason =
  | 'by_owner'
  | 'cancel_all'
  | 'disconnect'
  | 'deadman'
  | 'ioc_remainder'
  | 'fok_unfilled'
  | 'replaced'
  | 'note_exited'
  | 'instrument_closed'
  | 'vault_frozen'

export type PlaceResult = {
  order_id: string
  status: OrderStatus
  arrival_slot: number
  seq: number
  receipt: Receipt
}
export type CancelResult = { order_id: string; status: 'cancelled'; seq: number; receipt: Receipt }
export type ModifyResult = {
  old_order_id: string
  order_id: string
  status: OrderStatus
  arrival_slot: number
  seq: number
  receipt: Receipt
}
export type CancelAllResult = { cancelled: string[]; seq: number; receipt: Receipt }
export type DeadManResult = { expires_slot: number | null; seq: number; receipt: Receipt }

export type FillStage = 'matched' | 'submitted' | 'confirmed' | 'finalized' | 'voided'
export type Fill = {
  seq: number
  order_id: string
  fill_index: number
  symbol: string
  side: Side
  price: string
  amount: string
  quote_amount: string
  fee: string
  batch: number
  settlement_batch?: number
  stage: FillStage
  anchor_index: number
  proceeds_commitment: string
  change_commitment?: string
  signature?: string
  slot: number
}
export type Order = {
  order_id: string
  trading_key: string
  symbol: string
  side: Side
  type: OrderType
  amount: string
  filled_amount: string
  remaining_amount: string
  price_limit: string
  min_fill: string
  expiry_slot: number
  arrival_slot: number
  status: OrderStatus
  reason?: CancelReason
  replaces?: string
  replaced_by?: string
  fills: Fill[]
  seq: number
}

export type WithdrawalStatus = 'accepted' | 'submitted' | 'confirmed' | 'finalized' | 'refunded' | 'voided'
export type Withdrawal = {
  withdrawal_id: string
  commitment: string
  destination: string
  amount: string
  fee: string
  status: WithdrawalStatus
  change_commitment?: string
  refund_commitment?: string
  settlement_batch?: number
  signature?: string
  seq: number
}
export type ReshapeStatus = 'accepted' | 'submitted' | 'confirmed' | 'finalized' | 'voided'
export type Reshape = {
  reshape_id: string
  inputs: string[]
  outputs: { commitment: string; amount: string }[]
  status: ReshapeStatus
  settlement_batch?: number
  signature?: string
  seq: number
}
/** Data of a `note.created` or `note.exited` event: a note of one of the account's keys. */
export type NoteEvent = { commitment: string; trading_key: string; mint: string; amount: string }

export type EventKind =
  | 'order.accepted'
  | 'order.partially_filled'
  | 'order.filled'
  | 'order.cancelled'
  | 'order.expired'
  | 'order.replaced'
  | 'fill.matched'
  | 'fill.submitted'
  | 'fill.confirmed'
  | 'fill.finalized'
  | 'fill.voided'
  | `withdrawal.${WithdrawalStatus}`
  | `reshape.${ReshapeStatus}`
  | 'note.created'
  | 'note.exited'
/** One numbered fact of an account; the same object on REST and on every socket. */
export type AccountEvent = {
  seq: number
  kind: EventKind
  slot: number
  unix_ms: number
  data: Order | Fill | Withdrawal | Reshape | NoteEvent
}
export type Page<T> = { items: T[]; next_after: number | null }
export type Nonces = { place_nonce: string; cancel_nonce: string }

/** RFC 9457 problem document; `code` is stable, `applied` speaks of the command; `unknown` goes with status 500 only. */
export type Problem = {
  type: string
  title: string
  status: number
  detail: string
  code: string
  message: string
  request_id: string
  applied: 'no' | 'yes' | 'unknown'
} & Record<string, unknown>
