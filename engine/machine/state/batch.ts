/** Defines settlement batches, the content of one `settle` transaction each, from packing to finality. */
import { compareBytes } from '../../../protocol/bytes'
import type { Amount, EventSeq, SlotNumber } from '../../../protocol/units'
import { newChunk, readU48, writeU48 } from '../../memory/rows'
import type { HashResult, PayoutStage, SignedBatch } from '../../ports'
import type { TradingKey } from './account'
import type { Note, NoteFacts } from './note'
import type { FillRecord } from './order'
import type { State } from './state'

type BatchProgress = 'built' | 'submitted' | 'confirmed' | 'finalized'

/** A note that a batch creates, and the inputs of its blinding (protocol.md "Notes"). */
type Output = {
  readonly note: Note
  readonly anchor: Uint8Array
  /** Zeros for a note that belongs to no order. */
  readonly order_id: Uint8Array
  readonly nonce: bigint
  /** 2 * index + role. */
  readonly index_role: number
}

export type SettlementBatch = {
  readonly batch_id: number
  /** Slot at which it was packed. */
  readonly slot: SlotNumber
  readonly generation: number
  readonly inputs: Note[]
  readonly outputs: Output[]
  readonly fills: FillRecord[]
  /** In payload order: withdrawals and served exits. */
  readonly payouts: (Withdrawal | Exit)[]
  readonly reshapes: Reshape[]
  /** Change of accrued fees by mint index; with it every mint balances. */
  readonly fees: Amount[]
  /** Minimum number of leaves of the known state that the transaction cites. */
  leaf_count_min: number
  /** Capacity used. */
  parts: number
  /** Undefined until the hashing worker answers. */
  hashed: HashResult | undefined
  progress: BatchProgress
  /** base58; of the transaction of the newest stage. */
  signature: string | undefined
  signed: SignedBatch | undefined
}

/** Of a withdrawal or exit: the transaction that pays it or turns it into a refund note. */
type PayoutProgress = {
  /** 0 until it is packed. */
  payout_number: number
  payout_stage: PayoutStage['stage'] | undefined
  /** base58. */
  payout_signature: string | undefined
  /** Set once the chain turns the payout into a refund note. */
  refund_commitment: Uint8Array | undefined
}

/** A payout of part of a note to a token account. */
export type Withdrawal = PayoutProgress & {
  readonly kind: 'withdrawal'
  /** Hex. */
  readonly withdrawal_id: string
  readonly key: TradingKey
  readonly note: Note
  readonly commitment: Uint8Array
  readonly destination: Uint8Array
  readonly amount: Amount
  readonly fee: Amount
  readonly nonce: bigint
  readonly change_anchor: Uint8Array
  readonly expiry_slot: SlotNumber
  readonly accepted_slot: SlotNumber
  change: Note | undefined
  /** That of its settlement batch until the payout is final. */
  status: 'accepted' | 'submitted' | 'confirmed' | 'finalized' | 'paid' | 'refunded' | 'voided'
  /** Of the refund note that the chain may append; known once the batch is hashed. */
  refund_blinding: Uint8Array | undefined
  settlement_batch: number
  signature: string | undefined
  /** Event numbers of its acceptance and of its newest event. */
  accepted_seq: EventSeq
  seq: EventSeq
  ended_unix_ms: number
}

/** In the place of an order's id in the outputs of withdrawals and reshapes. */
export const NO_ORDER_ID: Uint8Array = new Uint8Array(16)

/** Notes of one key and mint merged or split. */
export type Reshape = {
  readonly kind: 'reshape'
  /** Hex. */
  readonly reshape_id: string
  readonly key: TradingKey
  readonly inputs: Note[]
  /** Of the inputs, as in the request. */
  readonly commitments: Uint8Array[]
  readonly amounts: Amount[]
  readonly nonce: bigint
  readonly anchor: Uint8Array
  readonly expiry_slot: SlotNumber
  readonly accepted_slot: SlotNumber
  outputs: Note[]
  status: 'accepted' | 'submitted' | 'confirmed' | 'finalized' | 'voided'
  settlement_batch: number
  signature: string | undefined
  accepted_seq: EventSeq
  seq: EventSeq
  ended_unix_ms: number
}

/** An exit request seen on chain. The whole note is paid to the destination of the request. */
export type Exit = PayoutProgress & {
  readonly kind: 'exit'
  readonly nullifier: Uint8Array
  readonly mint: Uint8Array
  readonly amount: Amount
  readonly destination: Uint8Array
  readonly deadline_unix_s: number
  readonly request_account: Uint8Array
  /** Of the note. */
  readonly commitment: Uint8Array
  /** Of the refund note, as in the request. */
  readonly refund_inner: Uint8Array
  readonly accepted_slot: SlotNumber
  /** Of the commitment; undefined while it is not known to be final. */
  leaf_index: number | undefined
  /** Undefined while the engine has not seen the opening of the note. */
  note: Note | undefined
  settlement_batch: number
}

export const UNPAID: PayoutProgress = {
  payout_number: 0,
  payout_stage: undefined,
  payout_signature: undefined,
  refund_commitment: undefined,
}

/** A payout that a batch before this journal queued. */
export type RestoredPayout = {
  readonly kind: 'restored'
  readonly mint: Uint8Array
  readonly destination: Uint8Array
  readonly amount: Amount
}

export type Settlement = {
  /** Unfinalized batches by id, ascending. */
  readonly batches: Map<number, SettlementBatch>
  /** Id of the newest packed batch; ids count from 1. */
  last_batch: number
  /** Id of the newest hashed batch. */
  last_hashed: number
  /** Fills in batches that are not confirmed. */
  unlanded: number
  /** Payments and exits that wait for a batch, in the order of acceptance. */
  readonly waiting: (Withdrawal | Reshape | Exit)[]
  /** All readable withdrawals and reshapes by id (hex), in the order of acceptance. */
  readonly payments: Map<string, Withdrawal | Reshape>
  /** Payouts in the vault's queue by number: their batch is at least confirmed, and they are not finally closed. */
  readonly queued: Map<number, Withdrawal | Exit | RestoredPayout>
  /** Number of the next payout, from 1. The program counts the same. */
  next_payout: number
  /** Payouts packed and not finally closed. */
  payouts_open: number
  /** Places of the vault's payout queue. */
  queue_capacity: number
  /** Exit requests by nullifier (hex), until their payout is final. */
  readonly exits: Map<string, Exit>
  /** Accrued fees that are not issued yet, by mint index. */
  fees: Amount[]
  /** Unix day on which fee notes were last issued. */
  fee_day: number
  /** Number of leaves a known state must have to contain all notes spent so far. */
  leaf_count_min: number
  /** Newest finalized batch. */
  landed: { batch_id: number; signature: Uint8Array; slot: SlotNumber } | undefined
}

/** Makes a note an input of the batch and marks it spent. */
export function spendNote(state: State, batch: SettlementBatch, note: Note): void {
  note.status = 'spent'
  note.spent_in = batch.batch_id
  batch.inputs.push(note)
  state.notes.hold(note)
  coverLeaf(state, batch, note.leaf_index)
}

/** Requires that the known state cited by the batch contains the leaf. */
export function coverLeaf(state: State, batch: SettlementBatch, leaf_index: number | undefined): void {
  const { settlement } = state
  if (leaf_index !== undefined && leaf_index >= settlement.leaf_count_min) {
    settlement.leaf_count_min = leaf_index + 1
  }
  batch.leaf_count_min = settlement.leaf_count_min
}

/** Exits of notes the engine has not seen: they spend a nullifier and pay an amount, but have no input note. */
export function unopenedExits(batch: SettlementBatch): Exit[] {
  return batch.payouts.filter((payout) => payout.kind === 'exit').filter((exit) => exit.note === undefined)
}

/** In the order of their refunds in the hash job and its result. */
export function withdrawalsOf(batch: SettlementBatch): Withdrawal[] {
  return batch.payouts.filter((payout) => payout.kind === 'withdrawal')
}

type NewNote = Pick<NoteFacts, 'owner' | 'key' | 'mint' | 'amount'> & { status: 'free' | 'in_use' }

/** Makes a new note an output of the batch; undefined for a zero amount, which creates no output. */
export function createNote(
  state: State,
  batch: SettlementBatch,
  made: NewNote,
  { anchor, order_id, nonce, index_role }: Omit<Output, 'note'>,
): Note | undefined {
  if (made.amount < 0n) throw new Error('a note cannot be negative')
  if (made.amount === 0n) return undefined
  const note = state.notes.create(made)
  batch.outputs.push({ note, anchor, order_id, nonce, index_role })
  state.notes.hold(note)
  return note
}

/** Changes the accrued fees of a mint; `change` is negative when fees are issued. */
export function moveFees(state: State, batch: SettlementBatch, mint: number, change: Amount): void {
  const { fees } = state.settlement
  const accrued = (fees[mint] ?? 0n) + change
  if (accrued < 0n) throw new Error('accrued fees cannot be negative')
  fees[mint] = accrued
  batch.fees[mint] = (batch.fees[mint] ?? 0n) + change
}

/** A nullifier, then the id of the batch that spent it: u48. */
export const SPENT_BYTES = 38
const SPENT = newChunk(SPENT_BYTES)

/** The batch of a row of `State.nullifiers`. */
export function spentIn(row: Uint8Array): number {
  return readU48(new DataView(row.buffer, row.byteOffset), 32)
}

/** Appends the nullifiers of the next batch of the spent log, ascending. @throws Error for one that is spent already */
export function appendSpent({ nullifiers }: State, batch_id: number, spent: readonly Uint8Array[]): void {
  for (const nullifier of [...spent].sort(compareBytes)) {
    if (nullifiers.has(nullifier)) throw new Error('a nullifier is spent twice')
    SPENT.bytes.set(nullifier)
    writeU48(SPENT.view, 32, batch_id)
    nullifiers.append(SPENT.bytes)
  }
}
