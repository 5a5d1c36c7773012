/** Defines the schemas of order commands, their results, orders and fills (protocol.md "Request bodies"; api.md "Shapes"). */

import { CANCEL_ALL_MAX, DEAD_MAN_SLOTS_MAX } from '../../protocol/limits'
import {
  Address,
  Anchors,
  Count,
  exact,
  FieldElement,
  Hash,
  Integer,
  Nonce,
  OrderId,
  OrderTypeName,
  PublicKey,
  Seq,
  SideName,
  Signature,
  Slot,
  SymbolName,
  TransactionSignature,
  t,
  U64,
} from './wire'

export const NoteOpening = exact({
  mint: Address,
  amount: U64,
  blinding: FieldElement,
  leaf_index: t.Optional(Integer(0, 2 ** 32 - 1, 'Exactly for notes of deposit form.')),
})

const checkFields = {
  order_id: OrderId,
  trading_key: PublicKey,
  symbol: SymbolName,
  side: SideName,
  type: OrderTypeName,
  amount: U64,
  price_limit: U64,
  min_fill: t.Optional(U64),
  expiry_slot: Slot,
  nonce: Nonce,
  collateral_commitment: FieldElement,
  continuation_anchors: Anchors,
  opening: t.Optional(NoteOpening),
}
export const CheckRequest = exact(checkFields)
export const PlaceRequest = exact({ ...checkFields, signature: Signature })
const cancelFields = { trading_key: PublicKey, cancel_nonce: Nonce, signature: Signature }
export const CancelRequest = exact(cancelFields)
const modifyFields = { cancel_nonce: Nonce, cancel_signature: Signature, replacement: PlaceRequest }
export const ModifyRequest = exact(modifyFields)
const CancelAllRequest = exact({ ...cancelFields, symbol: t.Optional(SymbolName) })
export const CancelAllBody = t.Union([
  CancelAllRequest,
  t.Array(CancelAllRequest, { minItems: 1, maxItems: CANCEL_ALL_MAX }),
])
export const DeadManRequest = exact({
  ...cancelFields,
  timeout_slots: Integer(
    0,
    Number.MAX_SAFE_INTEGER,
    `Slots until it fires, at most ${DEAD_MAN_SLOTS_MAX}; 0 disarms.`,
  ),
})

/** Params of cancel and modify on a socket: the body of the REST call and the id from its path. */
export const CancelParams = exact({ order_id: OrderId, ...cancelFields })
export const ModifyParams = exact({ order_id: OrderId, ...modifyFields })

export const Receipt = exact({
  epoch: Count,
  seq: Count,
  head: Hash,
  root: Hash,
  index: Count,
  path: t.Array(Hash),
  signature: Signature,
})
export const OrderStatus = t.Union([
  t.Literal('accepted'),
  t.Literal('partially_filled'),
  t.Literal('filled'),
  t.Literal('cancelled'),
  t.Literal('expired'),
])
const CancelReason = t.Union([
  t.Literal('by_owner'),
  t.Literal('cancel_all'),
  t.Literal('disconnect'),
  t.Literal('deadman'),
  t.Literal('ioc_remainder'),
  t.Literal('fok_unfilled'),
  t.Literal('replaced'),
  t.Literal('note_exited'),
  t.Literal('instrument_closed'),
  t.Literal('vault_frozen'),
])
const placedFields = {
  order_id: OrderId,
  status: OrderStatus,
  arrival_slot: Slot,
  seq: Seq,
  receipt: Receipt,
}
export const PlaceResult = exact(placedFields)
export const CancelResult = exact({
  order_id: OrderId,
  status: t.Literal('cancelled'),
  seq: Seq,
  receipt: Receipt,
})
export const ModifyResult = exact({ old_order_id: OrderId, ...placedFields })
export const CancelAllResult = exact({ cancelled: t.Array(OrderId), seq: Seq, receipt: Receipt })
export const DeadManResult = exact({
  expires_slot: t.Union([Slot, t.Null()]),
  seq: Seq,
  receipt: Receipt,
})

export const FillStage = t.Union([
  t.Literal('matched'),
  t.Literal('submitted'),
  t.Literal('confirmed'),
  t.Literal('finalized'),
  t.Literal('voided'),
])
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
  fills: t.Array(Fill),
  seq: Seq,
})
export const OrderParams = exact({ order_id: OrderId })
