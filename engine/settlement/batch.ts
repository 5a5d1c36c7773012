/** Settlement batches: what one `settle` transaction will spend, create and pay, from packing to finality. */
import type { HashResult, SignedBatch } from '../ports'
import type { TradingKey } from '../state/account'
import type { FillRecord } from '../state/fill_record'
import type { Note } from '../state/note'

export type BatchProgress = 'built' | 'submitted' | 'confirmed' | 'finalized'

/** A note a batch creates and what its blinding is made of (protocol.md "Notes"). */
export type Output = {
  readonly note: Note
  readonly anchor: Uint8Array
  /** Hex; 32 zeros where no order stands behind it. */
  readonly order_id: string
  readonly nonce: bigint
  /** 2 * index + role. */
  readonly index_role: number
}

export type SettlementBatch = {
  readonly batch_id: number
  /** Slot at which it was packed. */
  readonly slot: number
  readonly generation: number
  readonly inputs: Note[]
  readonly outputs: Output[]
  readonly fills: FillRecord[]
  /** In payload order: withdrawals and served exits. */
  readonly payouts: (Withdrawal | Exit)[]
  readonly reshapes: Reshape[]
  /** Change of accrued fees by mint index; with it every mint balances. */
  readonly fees: bigint[]
  /** Leaves the cited known state must have at least. */
  leaf_count_min: number
  /** Capacity used. */
  parts: number
  /** Undefined until the hashing worker answered. */
  hashed: HashResult | undefined
  progress: BatchProgress
  /** base58; of the transaction the newest stage speaks of. */
  signature: string | undefined
  signed: SignedBatch | undefined
}

/** A payout of part of a note to a token account. */
export type Withdrawal = {
  readonly kind: 'withdrawal'
  /** Hex. */
  readonly withdrawal_id: string
  readonly key: TradingKey
  readonly note: Note
  readonly commitment: string
  readonly destination: Uint8Array
  readonly amount: bigint
  readonly fee: bigint
  readonly nonce: bigint
  readonly change_anchor: Uint8Array
  readonly expiry_slot: number
  readonly accepted_slot: number
  change: Note | undefined
  status: 'accepted' | 'submitted' | 'confirmed' | 'finalized' | 'refunded' | 'voided'
  /** Hex; once the chain made a refund note of it. */
  refund_commitment: string | undefined
  settlement_batch: number
  signature: string | undefined
  /** Event number of its acceptance and of its newest event. */
  accepted_seq: number
  seq: number
  ended_unix_ms: number
}

/** Notes of one key and mint merged or split. */
export type Reshape = {
  readonly kind: 'reshape'
  /** Hex. */
  readonly reshape_id: string
  readonly key: TradingKey
  readonly inputs: Note[]
  /** Of the inputs, as the request named them. */
  readonly commitments: string[]
  readonly amounts: bigint[]
  readonly nonce: bigint
  readonly anchor: Uint8Array
  readonly expiry_slot: number
  readonly accepted_slot: number
  outputs: Note[]
  status: 'accepted' | 'submitted' | 'confirmed' | 'finalized' | 'voided'
  settlement_batch: number
  signature: string | undefined
  accepted_seq: number
  seq: number
  ended_unix_ms: number
}

/** An exit request seen on chain. The whole note is paid to the destination the request names. */
export type Exit = {
  readonly kind: 'exit'
  /** Hex. */
  readonly nullifier: string
  readonly mint: Uint8Array
  readonly amount: bigint
  readonly destination: Uint8Array
  readonly deadline_unix_s: number
  readonly request_account: Uint8Array
  /** Hex; of the note. */
  readonly commitment: string
  /** Of the refund note, as the request names it. */
  readonly refund_inner: Uint8Array
  readonly accepted_slot: number
  /** The note, where the engine knows it; nobody has shown it the opening of the others. */
  note: Note | undefined
  settlement_batch: number
}

export type Settlement = {
  /** Unfinalized batches by id, ascending. */
  readonly batches: Map<number, SettlementBatch>
  /** Id of the newest packed batch; ids count from 1. */
  last_batch: number
  /** Id of the newest hashed batch. */
  last_hashed: number
  /** Order parts in batches that are not confirmed. */
  unlanded: number
  /** Withdrawals and reshapes that wait for a batch, in the order of acceptance. */
  readonly waiting: (Withdrawal | Reshape | Exit)[]
  /** Every withdrawal and reshape that is readable, by id (hex), in the order of acceptance. */
  readonly payments: Map<string, Withdrawal | Reshape>
  /** Open exit requests by nullifier. */
  readonly exits: Map<string, Exit>
  /** Fees accrued and not yet issued, by mint index. */
  fees: bigint[]
  /** Day (unix) whose fee notes were issued last. */
  fee_day: number
  /** Leaves a cited known state must have for everything spent so far. */
  leaf_count_min: number
  /** Newest finalized batch. */
  landed: { batch_id: number; signature: Uint8Array; slot: number } | undefined
}
