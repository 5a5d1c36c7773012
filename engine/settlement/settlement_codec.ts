/** The layout of a snapshot's settlement tables; notes and fills are positions in the tables before. */
import { bool, fixed, hex, i128, list, option, struct, text, u64, uint, word } from '../state/codec'
import { EXIT_TERMS, hash_result, signed_batch } from '../state/command_codec'

const b32 = fixed(32)

const output_row = struct({ note: uint, anchor: b32, order_id: hex(16), nonce: u64, index_role: uint })

/** `at` is the position among the exits, or among the withdrawals and reshapes. */
export const payment_ref = struct({ exit: bool, at: uint })

export const batch_row = struct({
  batch_id: uint,
  slot: uint,
  generation: uint,
  inputs: list(uint),
  outputs: list(output_row),
  fills: list(uint),
  payouts: list(payment_ref),
  reshapes: list(uint),
  fees: list(i128),
  leaf_count_min: uint,
  parts: uint,
  hashed: option(hash_result),
  progress: word(['built', 'submitted', 'confirmed', 'finalized']),
  signature: option(text),
  signed: option(signed_batch),
})

export const withdrawal_row = struct({
  withdrawal_id: hex(16),
  key: uint,
  note: uint,
  commitment: hex(32),
  destination: b32,
  amount: u64,
  fee: u64,
  nonce: u64,
  change_anchor: b32,
  expiry_slot: uint,
  accepted_slot: uint,
  change: option(uint),
  status: word(['accepted', 'submitted', 'confirmed', 'finalized', 'refunded', 'voided']),
  refund_commitment: option(hex(32)),
  settlement_batch: uint,
  signature: option(text),
  accepted_seq: uint,
  seq: uint,
  ended_unix_ms: uint,
})

export const reshape_row = struct({
  reshape_id: hex(16),
  key: uint,
  inputs: list(uint),
  commitments: list(hex(32)),
  amounts: list(u64),
  nonce: u64,
  anchor: b32,
  expiry_slot: uint,
  accepted_slot: uint,
  outputs: list(uint),
  status: word(['accepted', 'submitted', 'confirmed', 'finalized', 'voided']),
  settlement_batch: uint,
  signature: option(text),
  accepted_seq: uint,
  seq: uint,
  ended_unix_ms: uint,
})

export const exit_row = struct({
  nullifier: hex(32),
  commitment: hex(32),
  ...EXIT_TERMS,
  accepted_slot: uint,
  note: option(uint),
  settlement_batch: uint,
})

export const settlement_row = struct({
  last_batch: uint,
  last_hashed: uint,
  unlanded: uint,
  waiting: list(payment_ref),
  fees: list(u64),
  fee_day: uint,
  leaf_count_min: uint,
  landed: option(struct({ batch_id: uint, signature: fixed(64), slot: uint })),
})
