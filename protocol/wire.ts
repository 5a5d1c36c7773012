/**
 * The JSON shapes both sides speak: request bodies, resources, list pages and stream frames.
 *
 * Forms (protocol.md "Values on the wire"): keys, mints and transaction signatures are base58; ids, commitments,
 * anchors, hashes and order signatures are lowercase hex of exact width; u64 values are canonical decimal strings;
 * slots, seq, milliseconds and indexes are JSON integers up to 2^53-1.
 */

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

/** Proof that a command stands in the journal (engine.md "Receipts"); protocol/receipt.ts checks it. */
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

export type InstrumentStatus = 'active' | 'paused' | 'closed'
export type ReferencePolicy = 'last' | 'oracle'
export type PriceRule = 'std4' | 'ref'
export type Instrument = {
  symbol: string
  base_mint: string
  quote_mint: string
  base_decimals: number
  quote_decimals: number
  lot_size: string
  tick_size: string
  min_amount: string
  max_amount: string
  batch_slots: number
  collar_bps: number
  fee_bps: number
  initial_reference: string
  reference_policy: ReferencePolicy
  price_rule: PriceRule
  volume_tolerance_bps: number
  status: InstrumentStatus
}

export type TokenRequest = { api_key: string; api_secret: string; passphrase: string }
export type TokenResponse = {
  access_token: string
  token_type: 'Bearer'
  expires_in: number
  account_id: string
}
export type ServerTime = { slot: number; unix_ms: number; slot_ms: number }
export type SystemStatus = {
  ready: boolean
  matching: 'running' | 'paused' | 'stopped'
  settlement: 'wired' | 'degraded' | 'unwired'
  chain: { slot: number; lag_ms: number; genesis_hash: string }
  enclave: 'dstack' | 'development'
  draining: boolean
  reasons: string[]
}
export type TreeRoot = { root: string; leaf_count: number; depth: number; slot: number; batch_id: number }
export type TreeInclusion = {
  commitment: string
  leaf_index: number
  siblings: string[]
  root: string
  leaf_count: number
  usable: boolean
}
export type TreeLeaves = { from: number; leaves: string[]; root: string; leaf_count: number }
export type SettlementHealth = {
  status: 'wired' | 'degraded' | 'unwired'
  last_batch: number
  last_signature: string | null
  last_slot: number | null
}
export type SettlementBatchStage = { batch: number; signature: string; slot: number; stage: FillStage }
export type Transparency = {
  mints: {
    mint: string
    decimals: number
    vault: string
    vault_balance: string
    outstanding: string
    freezable: boolean
    min_deposit: string
    min_withdraw: string
    min_exit: string
    withdraw_fee: string
    slot: number
    stale: boolean
  }[]
  tree: { root: string; leaf_count: number; spent_root: string; spent_count: number }
  settlement: {
    signer: string
    epoch: number
    generation: number
    last_batch: number
    last_signature: string | null
  }
  admin: { pending: { action: string; effective_unix_s: number; value: string }[] }
  builds: { compose_hash: string; tacit_version: string; from_slot: number }[]
  statistics: { days: { day: string; symbol: string; fills: number | null; volume: string | null }[] }
}
export type Info = {
  app_id: string
  instance_id: string
  compose_hash: string
  tee_pubkey: string
  tacit_version: string
  venue: string
  config_account: string
  program_id: string
  genesis_hash: string
  generation: number
  epoch: number
  exit_delay_s: number
}
export type Attestation = {
  quote: string
  event_log: string
  report_data: string
  vm_config: string
  tee_pubkey: string
  binding: {
    body: string
    signature: string
    certificate: string
    certificate_signature: string
    statement_key: string
  }
}

/** RFC 9457 problem document; `code` is stable, `applied` speaks of the command. */
export type Problem = {
  type: string
  title: string
  status: number
  detail: string
  code: string
  message: string
  request_id: string
  applied: 'no' | 'yes'
} & Record<string, unknown>
