/**
 * Describes the JSON shapes of an account once: request bodies, their results, resources, events and list pages. Each
 * constant is the document and, through `parserOf`, the parser; the type of its name is the JSON (protocol.md "Request
 * bodies"; api.md "Shapes"). Shapes of the public reads are in public.ts.
 */

import { compareBytes } from '../bytes'
import {
  CANCEL_ALL_MAX,
  DEAD_MAN_SLOTS_MAX,
  PAGE_ITEMS_DEFAULT,
  PAGE_ITEMS_MAX,
  RESHAPE_NOTES_MAX,
} from '../limits'
import { AccountChange } from './accounts'
import {
  Address,
  AmountText,
  Anchors,
  asText,
  BaseUnitsText,
  CommandId,
  Count,
  exact,
  FieldElement,
  group,
  Hash,
  Integer,
  Milliseconds,
  Nonce,
  nullable,
  OrderId,
  OrderType as OrderTypeName,
  oneOf,
  PositiveAmountText,
  PriceText,
  PublicKey,
  QueryInteger,
  Seq,
  Side as SideName,
  Signature,
  Slot,
  SourceName,
  type Static,
  SymbolName,
  TransactionSignature,
  type TSchema,
  t,
  U64,
} from './values'

export type * from './accounts'
export type * from './public'

export type Side = Static<typeof SideName>
export type OrderType = Static<typeof OrderTypeName>

/** Opens a note the venue does not know; pinned by the signed commitment. `leaf_index` exactly for deposit-form notes. */
export const NoteOpening = exact({
  mint: Address,
  amount: AmountText,
  blinding: FieldElement,
  leaf_index: t.Optional(Integer(0, 2 ** 32 - 1, 'Exactly for notes of deposit form.')),
})
export type NoteOpening = Static<typeof NoteOpening>

// Commands.

const checkFields = {
  order_id: OrderId,
  trading_key: PublicKey,
  symbol: SymbolName,
  side: SideName,
  type: OrderTypeName,
  amount: BaseUnitsText,
  price_limit: PriceText,
  min_fill: t.Optional(BaseUnitsText),
  expiry_slot: Slot,
  nonce: Nonce,
  collateral_commitment: FieldElement,
  continuation_anchors: Anchors,
  opening: t.Optional(NoteOpening),
}
/** A place body without `signature`: the body of POST /orders/check. */
export const CheckRequest = exact(checkFields)
export type CheckRequest = Static<typeof CheckRequest>
export const PlaceRequest = exact({ ...checkFields, signature: Signature })
export type PlaceRequest = Static<typeof PlaceRequest>

const cancelFields = { trading_key: PublicKey, cancel_nonce: Nonce, signature: Signature }
export const CancelRequest = exact(cancelFields)
export type CancelRequest = Static<typeof CancelRequest>
const modifyFields = { cancel_nonce: Nonce, cancel_signature: Signature, replacement: PlaceRequest }
export const ModifyRequest = exact(modifyFields)
export type ModifyRequest = Static<typeof ModifyRequest>
/** Params of cancel and modify on a socket: the body of the REST call and the id from its path. */
export const CancelParams = exact({ order_id: OrderId, ...cancelFields })
export const ModifyParams = exact({ order_id: OrderId, ...modifyFields })

export const CancelAllRequest = exact({ ...cancelFields, symbol: t.Optional(SymbolName) })
export type CancelAllRequest = Static<typeof CancelAllRequest>
export const CancelAllBody = t.Union([
  CancelAllRequest,
  t.Array(CancelAllRequest, { minItems: 1, maxItems: CANCEL_ALL_MAX }),
])
export const DeadManRequest = exact({
  ...cancelFields,
  timeout_slots: t.Integer({
    minimum: 0,
    maximum: Number.MAX_SAFE_INTEGER,
    // Shown to readers of the document; a longer one is rejected with `timeout_out_of_range`.
    'x-integer': { minimum: 0, maximum: DEAD_MAN_SLOTS_MAX, description: 'Slots until it fires; 0 disarms.' },
  }),
})
export type DeadManRequest = Static<typeof DeadManRequest>

export const WithdrawalRequest = exact({
  trading_key: PublicKey,
  commitment: FieldElement,
  destination: Address,
  amount: PositiveAmountText,
  nonce: Nonce,
  expiry_slot: Slot,
  change_anchor: FieldElement,
  signature: Signature,
  opening: t.Optional(NoteOpening),
})
export type WithdrawalRequest = Static<typeof WithdrawalRequest>

const RESHAPE_NOTES = { minItems: 1, maxItems: RESHAPE_NOTES_MAX }
const isAscending = (inputs: Uint8Array[]) =>
  inputs.every((input, index) => index === 0 || compareBytes(inputs[index - 1]!, input) < 0)
export const ReshapeRequest = exact({
  trading_key: PublicKey,
  inputs: group(FieldElement, RESHAPE_NOTES, 'reshape_invalid', isAscending),
  amounts: group(AmountText, RESHAPE_NOTES, 'reshape_invalid', (amounts) => !amounts.includes(0n)),
  anchor: FieldElement,
  nonce: Nonce,
  expiry_slot: Slot,
  signature: Signature,
  openings: t.Optional(
    t.Array(nullable(NoteOpening), {
      ...RESHAPE_NOTES,
      description: 'Aligned with inputs; null where the venue knows the note.',
    }),
  ),
})
export type ReshapeRequest = Static<typeof ReshapeRequest>

/** A price signed by a source of an oracle instrument: the body of POST /references on the operator's port. */
export const ReferencePrice = exact({
  symbol: SymbolName,
  price: PriceText,
  publish_unix_ms: Milliseconds,
  source: SourceName,
  signature: Signature,
})

/** One batch of an instrument: the body of POST /exports on the operator's port. */
export const ExportRequest = exact({
  symbol: SymbolName,
  batch: Integer(1, 2 ** 32 - 1, 'Number of the batch, as in its fills.'),
})

/** The operator opens, pauses or closes an instrument: the body of POST /instruments on the operator's port. */
export const InstrumentChange = exact({
  symbol: SymbolName,
  status: oneOf(['active', 'paused', 'closed']),
})

/** The operator puts the next version of rules and formats in force: the body of POST /activate on the operator's port. */
export const Activation = exact({ version: t.Integer({ minimum: 0, maximum: 255 }) })

// Results.

/** Proof that a command is in the journal (engine.md "Receipts"); protocol/bodies/statements.ts checks it. */
export const Receipt = exact({
  epoch: Count,
  seq: Count,
  head: Hash,
  root: Hash,
  index: Count,
  path: t.Array(Hash),
  signature: Signature,
})
export type Receipt = Static<typeof Receipt>
export const OrderStatus = oneOf(['accepted', 'partially_filled', 'filled', 'cancelled', 'expired'])
export type OrderStatus = Static<typeof OrderStatus>

const placedFields = {
  order_id: OrderId,
  status: OrderStatus,
  arrival_slot: Slot,
  seq: Seq,
  receipt: Receipt,
}
export const PlaceResult = exact(placedFields)
export type PlaceResult = Static<typeof PlaceResult>
/** A change of an order of a closed batch waits for the chain's decision; `batch` is that batch. */
const pendingFields = { order_id: OrderId, batch: Count, seq: Seq, receipt: Receipt }
export const CancelPending = exact({ ...pendingFields, status: t.Literal('cancel_pending') })
const CancelDone = exact({ order_id: OrderId, status: t.Literal('cancelled'), seq: Seq, receipt: Receipt })
export const CancelResult = CancelDone
export type CancelResult = Static<typeof CancelResult> | Static<typeof CancelPending>
/** `order_id` is the replacement. */
const ReplacePending = exact({
  old_order_id: OrderId,
  ...pendingFields,
  status: t.Literal('replace_pending'),
})
const ModifyDone = exact({ old_order_id: OrderId, ...placedFields })
export const ModifyResult = t.Union([ModifyDone, ReplacePending])
export type ModifyResult = Static<typeof ModifyResult>
export const CancelAllResult = exact({
  cancelled: t.Array(OrderId),
  pending: t.Array(OrderId),
  seq: Seq,
  receipt: Receipt,
})
export type CancelAllResult = Static<typeof CancelAllResult>
export const DeadManResult = exact({ expires_slot: nullable(Slot), seq: Seq, receipt: Receipt })
export type DeadManResult = Static<typeof DeadManResult>

// Resources.

export const CancelReason = oneOf([
  'by_owner',
  'cancel_all',
  'disconnect',
  'deadman',
  'ioc_remainder',
  'fok_unfilled',
  'replaced',
  'note_exited',
  'instrument_closed',
  'vault_frozen',
  'rebound',
])
export type CancelReason = Static<typeof CancelReason>
export const FillStage = oneOf(['matched', 'submitted', 'confirmed', 'finalized', 'voided'])
export type FillStage = Static<typeof FillStage>
export const Fill = exact({
  seq: Seq,
  order_id: OrderId,
  fill_index: Count,
  symbol: SymbolName,
  side: SideName,
  price: U64,
  amount: U64,
  quote_amount: U64,
  fee: U64,
  batch: Count,
  settlement_batch: t.Optional(Count),
  stage: FillStage,
  anchor_index: Count,
  proceeds_commitment: Hash,
  change_commitment: t.Optional(Hash),
  signature: t.Optional(TransactionSignature),
  slot: Slot,
})
export type Fill = Static<typeof Fill>
export const Order = exact({
  order_id: OrderId,
  trading_key: PublicKey,
  symbol: SymbolName,
  side: SideName,
  type: OrderTypeName,
  amount: U64,
  filled_amount: U64,
  remaining_amount: U64,
  price_limit: U64,
  min_fill: U64,
  expiry_slot: Slot,
  arrival_slot: Slot,
  status: OrderStatus,
  reason: t.Optional(CancelReason),
  replaces: t.Optional(OrderId),
  replaced_by: t.Optional(OrderId),
  pending: t.Optional(oneOf(['cancel', 'replace'])),
  code: t.Optional(t.String({ description: 'Of a refused cancel or replacement that had waited.' })),
  replacement: t.Optional(OrderId),
  fills: t.Array(Fill),
  seq: Seq,
})
export type Order = Static<typeof Order>

/** The second transaction of a withdrawal or exit, which pays it or turns it into a refund note. */
const payoutFields = {
  payout_number: t.Optional(Count),
  payout_stage: t.Optional(oneOf(['submitted', 'confirmed', 'finalized'])),
  payout_signature: t.Optional(TransactionSignature),
}
const withdrawalFields = {
  withdrawal_id: CommandId,
  commitment: Hash,
  destination: Address,
  amount: U64,
  fee: U64,
  status: oneOf(['accepted', 'submitted', 'confirmed', 'finalized', 'paid', 'refunded', 'voided']),
  change_commitment: t.Optional(Hash),
  refund_commitment: t.Optional(Hash),
  settlement_batch: t.Optional(Count),
  signature: t.Optional(TransactionSignature),
  ...payoutFields,
  seq: Seq,
}
export const Withdrawal = exact(withdrawalFields)
export type Withdrawal = Static<typeof Withdrawal>
export const WithdrawalResult = exact({ ...withdrawalFields, receipt: Receipt })
export type WithdrawalResult = Static<typeof WithdrawalResult>

const reshapeFields = {
  reshape_id: CommandId,
  inputs: t.Array(Hash),
  outputs: t.Array(exact({ commitment: Hash, amount: U64 })),
  status: oneOf(['accepted', 'submitted', 'confirmed', 'finalized', 'voided']),
  settlement_batch: t.Optional(Count),
  signature: t.Optional(TransactionSignature),
  seq: Seq,
}
export const Reshape = exact(reshapeFields)
export type Reshape = Static<typeof Reshape>
export const ReshapeResult = exact({ ...reshapeFields, receipt: Receipt })
export type ReshapeResult = Static<typeof ReshapeResult>

export const SettlementBatchStage = exact({
  batch: Count,
  signature: TransactionSignature,
  slot: Slot,
  stage: FillStage,
})
export type SettlementBatchStage = Static<typeof SettlementBatchStage>
export const OrderStages = exact({ order_id: OrderId, fills: t.Array(Fill) })
export type OrderStages = Static<typeof OrderStages>

export const Nonces = exact({ place_nonce: U64, cancel_nonce: U64 })
export type Nonces = Static<typeof Nonces>

// Events and pages.

/** Data of a `note.created` or `note.exited` event: a note of one of the account's keys. */
export const NoteEvent = exact({ commitment: Hash, trading_key: PublicKey, mint: Address, amount: U64 })
export type NoteEvent = Static<typeof NoteEvent>
/** Data of an `exit.*` event: a request on chain for a note of one of the account's keys. */
export const ExitEvent = exact({
  nullifier: Hash,
  commitment: Hash,
  mint: Address,
  amount: U64,
  destination: Address,
  deadline: Integer(0, Number.MAX_SAFE_INTEGER, 'Unix seconds.'),
  status: oneOf(['requested', 'served', 'paid', 'refunded']),
  refund_commitment: t.Optional(Hash),
  settlement_batch: t.Optional(Count),
  ...payoutFields,
})
export type ExitEvent = Static<typeof ExitEvent>
/**
 * Data of `order.cancel_refused` and `order.replace_refused` for an order that has ended; else the order with these fields.
 * `replacement` is the order that was rejected.
 */
export const OrderRefused = exact({ order_id: OrderId, code: t.String(), replacement: t.Optional(OrderId) })
/** Data of `batch.voided`: the batch holds no auction, and the account's orders in it rest. */
export const BatchVoided = exact({ symbol: SymbolName, batch: Count, close_slot: Slot })
export const EventKind = oneOf([
  'order.accepted',
  'order.partially_filled',
  'order.filled',
  'order.cancelled',
  'order.expired',
  'order.replaced',
  'order.cancel_pending',
  'order.replace_pending',
  'order.cancel_refused',
  'order.replace_refused',
  'batch.voided',
  'fill.matched',
  'fill.submitted',
  'fill.confirmed',
  'fill.finalized',
  'fill.voided',
  'withdrawal.accepted',
  'withdrawal.submitted',
  'withdrawal.confirmed',
  'withdrawal.finalized',
  'withdrawal.paid',
  'withdrawal.refunded',
  'withdrawal.voided',
  'reshape.accepted',
  'reshape.submitted',
  'reshape.confirmed',
  'reshape.finalized',
  'reshape.voided',
  'note.created',
  'note.exited',
  'exit.requested',
  'exit.served',
  'exit.paid',
  'exit.refunded',
  'account.changed',
])
export type EventKind = Static<typeof EventKind>
/** One numbered fact of an account; the same object on REST and on every socket. */
export const AccountEvent = exact({
  seq: Seq,
  kind: EventKind,
  slot: Slot,
  unix_ms: Milliseconds,
  data: t.Union([
    Order,
    Fill,
    Withdrawal,
    Reshape,
    NoteEvent,
    ExitEvent,
    OrderRefused,
    BatchVoided,
    AccountChange,
  ]),
})
export type AccountEvent = Static<typeof AccountEvent>

export const page = <S extends TSchema>(item: S) =>
  exact({
    items: t.Array(item),
    next_after: t.Union([Seq, t.Null()], {
      description: 'Pass as `after` for the next page; null at the end.',
    }),
  })
export type Page<T> = { items: T[]; next_after: number | null }
export const pageFields = {
  after: t.Optional(
    QueryInteger('What follows this place: `next_after` of the page before; 0 or absent for the first.'),
  ),
  limit: t.Optional(
    QueryInteger(
      `Items per page, 1 to ${PAGE_ITEMS_MAX}; ${PAGE_ITEMS_DEFAULT} if absent.`,
      1,
      PAGE_ITEMS_MAX,
    ),
  ),
}
export const PageQuery = exact(pageFields)

// Ids in a path: commands take the bytes, reads the text.

export const OrderPath = exact({ order_id: OrderId })
export const OrderTextPath = exact({ order_id: asText(OrderId) })
