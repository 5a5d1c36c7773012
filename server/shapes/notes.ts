/** Defines the schemas of withdrawals, reshapes and the tree of note commitments (api.md "Shapes"). */

import { RESHAPE_NOTES_MAX } from '../../protocol/limits'
import { NoteOpening, Receipt } from './orders'
import {
  Address,
  CommandId,
  Count,
  exact,
  FieldElement,
  Hash,
  Nonce,
  PublicKey,
  Seq,
  Signature,
  Slot,
  TransactionSignature,
  t,
  U64,
} from './wire'

const REFUSED_SHAPE = { 'x-refusal': { items: 'reshape_invalid' } }

export const WithdrawalRequest = exact({
  trading_key: PublicKey,
  commitment: FieldElement,
  destination: Address,
  amount: U64,
  nonce: Nonce,
  expiry_slot: Slot,
  change_anchor: FieldElement,
  signature: Signature,
  opening: t.Optional(NoteOpening),
})
const withdrawalFields = {
  withdrawal_id: CommandId,
  commitment: Hash,
  destination: Address,
  amount: U64,
  fee: U64,
  status: t.Union([
    t.Literal('accepted'),
    t.Literal('submitted'),
    t.Literal('confirmed'),
    t.Literal('finalized'),
    t.Literal('refunded'),
    t.Literal('voided'),
  ]),
  change_commitment: t.Optional(Hash),
  refund_commitment: t.Optional(Hash),
  settlement_batch: t.Optional(Count),
  signature: t.Optional(TransactionSignature),
  seq: Seq,
}
export const Withdrawal = exact(withdrawalFields)
export const WithdrawalResult = exact({ ...withdrawalFields, receipt: Receipt })

export const ReshapeRequest = exact({
  trading_key: PublicKey,
  inputs: t.Array(FieldElement, { minItems: 1, maxItems: RESHAPE_NOTES_MAX, ...REFUSED_SHAPE }),
  amounts: t.Array(U64, { minItems: 1, maxItems: RESHAPE_NOTES_MAX, ...REFUSED_SHAPE }),
  anchor: FieldElement,
  nonce: Nonce,
  expiry_slot: Slot,
  signature: Signature,
  openings: t.Optional(
    t.Array(t.Union([NoteOpening, t.Null()]), {
      minItems: 1,
      maxItems: RESHAPE_NOTES_MAX,
      description: 'Aligned with inputs; null where the venue knows the note.',
    }),
  ),
})
const reshapeFields = {
  reshape_id: CommandId,
  inputs: t.Array(Hash),
  outputs: t.Array(exact({ commitment: Hash, amount: U64 })),
  status: t.Union([
    t.Literal('accepted'),
    t.Literal('submitted'),
    t.Literal('confirmed'),
    t.Literal('finalized'),
    t.Literal('voided'),
  ]),
  settlement_batch: t.Optional(Count),
  signature: t.Optional(TransactionSignature),
  seq: Seq,
}
export const Reshape = exact(reshapeFields)
export const ReshapeResult = exact({ ...reshapeFields, receipt: Receipt })

export const NoteEvent = exact({ commitment: Hash, trading_key: PublicKey, mint: Address, amount: U64 })

export const TreeRoot = exact({ root: Hash, leaf_count: Count, depth: Count, slot: Slot, batch_id: Count })
export const TreeInclusion = exact({
  commitment: Hash,
  leaf_index: Count,
  siblings: t.Array(Hash, { minItems: 32, maxItems: 32 }),
  root: Hash,
  leaf_count: Count,
  usable: t.Boolean({
    description: 'Inside the finalized known state. Says nothing about whether the note is spent.',
  }),
})
export const TreeLeaves = exact({ from: Count, leaves: t.Array(Hash), root: Hash, leaf_count: Count })
