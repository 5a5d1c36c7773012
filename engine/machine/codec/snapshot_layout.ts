/** Defines the layout of a snapshot's tables. A row refers to another object by its index in an earlier table. */

import { ACCOUNT_STATES } from '../../../protocol/bodies/account'
import type { ByteReader, ByteWriter } from '../../../protocol/byte_stream'
import {
  blob,
  bool,
  fixed,
  hex,
  json,
  list,
  mapped,
  option,
  struct,
  text,
  u64,
  uint,
  union,
  word,
} from '../../../protocol/codec'
import type { Settings } from '../../commands'
import { LIMITS } from '../../limits'
import type { Change, TradingKey } from '../state/account'
import type { InstrumentState } from '../state/instrument'
import { REASONS } from '../state/live_orders'
import {
  BLINDING_AT,
  COMMITMENT_AT,
  FLAGS_AT,
  HAS_BLINDING,
  HAS_COMMITMENT,
  HAS_LEAF_INDEX,
  LEAF_AT,
  NOTE_STATUSES,
  type Note,
} from '../state/note'
import {
  DIGEST_BYTES,
  type FillRecord,
  ID_BYTES,
  IDENTITY_BYTES,
  LIVE_STATUSES,
  type Order,
  type OrderFacts,
  SIDES,
  TYPES,
} from '../state/order'
import { keyBytes, type State } from '../state/state'
import {
  account_limits,
  credential_terms,
  EXIT_TERMS,
  exit_request,
  HALT_REASONS,
  hash_result,
  PAYOUT_STAGES,
  PAYOUT_TERMS,
  signed_batch,
} from './command_codec'
import type { Tables } from './snapshot_tables'

const b32 = fixed(32)
/** A sum or difference of amounts: sign, then the magnitude. */
const i128 = mapped(
  struct({ negative: bool, low: u64, high: u64 }),
  ({ negative, low, high }) => (negative ? -(low | (high << 64n)) : low | (high << 64n)),
  (value) => {
    const size = value < 0n ? -value : value
    return { negative: value < 0n, low: size & 0xffff_ffff_ffff_ffffn, high: size >> 64n }
  },
)
const side = word(SIDES)
const type = word(TYPES)
const note_status = word(NOTE_STATUSES)
const live_status = word(LIVE_STATUSES)
const STAGES = ['matched', 'submitted', 'confirmed', 'finalized', 'voided'] as const
const INSTRUMENT_STATUSES = ['active', 'paused', 'closed'] as const

export const heading = struct({
  settings: option(json<Settings>()),
  slot: uint,
  reopens_slot: uint,
  unix_ms: uint,
  epoch: uint,
  epochs: list(
    struct({
      epoch: uint,
      boot_nonce: fixed(16),
      generation: uint,
      settlement_key: fixed(32),
      signature: fixed(64),
      transaction: blob,
      slot: uint,
    }),
  ),
  halted: option(word(HALT_REASONS)),
  absent: mapped(
    list(struct({ node: text, spent_ms: uint })),
    (rows) => new Map(rows.map(({ node, spent_ms }) => [node, spent_ms])),
    (absent) => [...absent].map(([node, spent_ms]) => ({ node, spent_ms })),
  ),
})

export const mint_row = struct({
  text,
  min_withdraw: u64,
  withdraw_fee: u64,
})

export const instrument_row = struct({
  terms: struct({
    symbol: text,
    base: uint,
    quote: uint,
    base_decimals: uint,
    lot_size: u64,
    tick_size: u64,
    quote_per_lot_tick: i128,
    batch_slots: uint,
    collar_bps: uint,
    fee_bps: uint,
    initial_reference_ticks: uint,
    reference_policy: word(['last', 'oracle']),
    price_rule: word(['std4', 'ref']),
    volume_tolerance_bps: uint,
  }),
  status: word(INSTRUMENT_STATUSES),
  reference_ticks: option(uint),
  reference_unix_ms: uint,
  reference_source: text,
  next_batch: uint,
})

const waiting_cancel = struct({
  number: uint,
  key: uint,
  cancel_nonce: u64,
  order_id: fixed(16),
  reason: word(REASONS),
})
/** The closed batch; `due[].instrument` is an index, `command` the bytes of a modify command. */
export const closed_row = struct({
  seq: uint,
  slot: uint,
  capacity: uint,
  due: list(struct({ instrument: uint, batch: uint, reference_ticks: uint, seed: b32 })),
  waiting: list(
    union('kind', {
      cancel: waiting_cancel,
      modify: struct({ number: uint, key: uint, command: blob, note: option(uint) }),
      exit: struct({ request: exit_request }),
    }),
  ),
  endings: list(waiting_cancel),
})

export const account_row = struct({
  account_id: text,
  account_key: b32,
  version: uint,
  state: word(ACCOUNT_STATES),
  limits: account_limits,
  orders_held: struct({ max: uint, until_slot: uint }),
  credential_version: uint,
  credentials: list(
    struct({
      credential_id: hex(16),
      kind: word(['trade', 'read']),
      ...credential_terms,
      created_slot: uint,
    }),
  ),
  tokens: list(struct({ token_id: hex(32), credential_id: hex(16), until_ms: uint })),
  changes: list(json<Change>()),
  seq: uint,
  armed: list(text),
})

export const key_row = struct({
  bytes: b32,
  account: uint,
  place_nonce: u64,
  cancel_nonce: u64,
  dead_man_slot: uint,
})

export const fill_row = struct({
  account: uint,
  order_id: fixed(16),
  fill_index: uint,
  symbol: text,
  side,
  price: u64,
  amount: u64,
  quote_amount: u64,
  fee: u64,
  batch: uint,
  settlement_batch: uint,
  anchor_index: uint,
  slot: uint,
  proceeds: option(uint),
  change: option(uint),
  stage: word(STAGES),
  signature: option(text),
  seq: uint,
})

/** Optional parts of a note, 32 bytes each: offset in the row and flag. */
const PARTS = [
  [COMMITMENT_AT, HAS_COMMITMENT],
  [BLINDING_AT, HAS_BLINDING],
] as const

/** Notes and orders are written and read by code, not by a description: there may be millions, and it is faster. */
export function writeNote(to: ByteWriter, note: Note): void {
  const { bytes } = note.chunk
  const flags = bytes[note.at(FLAGS_AT)]!
  to.text(note.owner_text)
  to.uint(note.mint)
  to.u64(note.amount)
  note_status.write(to, note.status)
  for (const [at, flag] of PARTS) {
    const has = (flags & flag) !== 0
    to.byte(has ? 1 : 0)
    if (has) to.copy(bytes, note.at(at), 32)
  }
  const { leaf_index } = note
  to.byte(leaf_index === undefined ? 0 : 1)
  if (leaf_index !== undefined) to.uint(leaf_index)
  to.byte(note.landed ? 1 : 0)
  to.uint(note.spent_in)
}

/** Creates the note, not known yet. */
export function readNote(from: ByteReader, { notes, keys }: Pick<State, 'notes' | 'keys'>): Note {
  const owner = from.text()
  const key = keys.get(owner)
  const note = notes.create({
    owner: key?.bytes ?? keyBytes(owner),
    key,
    mint: from.uint(),
    amount: from.u64(),
    status: note_status.read(from),
  })
  const { bytes, view } = note.chunk
  const flags_at = note.at(FLAGS_AT)
  for (const [part_at, flag] of PARTS) {
    if (from.byte() !== 1) continue
    from.copy(bytes, note.at(part_at), 32)
    bytes[flags_at]! |= flag
  }
  if (from.byte() === 1) {
    view.setUint32(note.at(LEAF_AT), from.uint(), true)
    bytes[flags_at]! |= HAS_LEAF_INDEX
  }
  if (from.byte() === 1) note.land()
  note.spent_in = from.uint()
  return note
}

/** A buffer that every written order reuses. */
const IDENTITY = new Uint8Array(IDENTITY_BYTES)

export function writeOrder(to: ByteWriter, order: Order, tables: Tables): void {
  const { anchor_count, origin, fills } = order
  order.readIdentity(IDENTITY)
  to.copy(IDENTITY, 0, ID_BYTES)
  to.uint(order.key.index)
  to.uint(order.instrument.index)
  side.write(to, order.side)
  type.write(to, order.type)
  to.uint(order.lots)
  to.uint(order.ticks)
  to.uint(order.min_lots)
  to.uint(order.fee_bps)
  to.uint(order.expiry_slot)
  to.uint(order.arrival_slot)
  to.uint(order.arrival_batch)
  to.u64(order.nonce)
  to.uint(anchor_count * 32)
  order.encodeAnchors(to)
  to.copy(IDENTITY, ID_BYTES, DIGEST_BYTES)
  to.byte(origin === undefined ? 0 : 1)
  if (origin !== undefined) to.text(origin)
  to.byte(order.has_replaced ? 1 : 0)
  if (order.has_replaced) to.copy(IDENTITY, ID_BYTES + DIGEST_BYTES, ID_BYTES)
  to.uint(order.seq)
  to.uint(order.remaining)
  live_status.write(to, order.status)
  to.uint(tables.notes.at(order.collateral))
  to.u64(order.cumulative_quote)
  to.u64(order.cumulative_fee)
  to.uint(fills.length)
  for (const fill of fills) to.uint(tables.fills.at(fill))
}

/** The tables decoded before the orders. */
type OrderDecoding = {
  keys: readonly TradingKey[]
  instruments: readonly InstrumentState[]
  /** The note at an index of the table of notes. */
  noteAt: (place: number) => Note
  fills: readonly FillRecord[]
}

/** Buffers that every order read reuses: the caller copies them before it reads the next order. */
const ORDER_ID = new Uint8Array(16)
const DIGEST = new Uint8Array(32)
const REPLACED_ID = new Uint8Array(16)
const ANCHORS = Array.from({ length: LIMITS.anchors_max }, () => new Uint8Array(32))

function readInto(from: ByteReader, into: Uint8Array): Uint8Array {
  from.copy(into, 0, into.length)
  return into
}

function readAnchors(from: ByteReader): Uint8Array[] {
  const anchors = ANCHORS.slice(0, from.uint() / 32)
  for (const anchor of anchors) readInto(from, anchor)
  return anchors
}

/** The byte fields are overwritten when the next order is read. */
export function readOrder(from: ByteReader, known: OrderDecoding): OrderFacts {
  const facts: OrderFacts = {
    order_id: readInto(from, ORDER_ID),
    key: known.keys[from.uint()]!,
    instrument: known.instruments[from.uint()]!,
    side: side.read(from),
    type: type.read(from),
    lots: from.uint(),
    ticks: from.uint(),
    min_lots: from.uint(),
    fee_bps: from.uint(),
    expiry_slot: from.uint(),
    arrival_slot: from.uint(),
    arrival_batch: from.uint(),
    nonce: from.u64(),
    anchors: readAnchors(from),
    digest: readInto(from, DIGEST),
    origin: from.byte() === 1 ? from.text() : undefined,
    replaces: from.byte() === 1 ? readInto(from, REPLACED_ID) : undefined,
    seq: from.uint(),
    remaining: from.uint(),
    status: live_status.read(from),
    collateral: known.noteAt(from.uint()),
    traded: undefined,
  }
  const cumulative_quote = from.u64()
  const cumulative_fee = from.u64()
  const fills: FillRecord[] = []
  for (let count = from.uint(); count > 0; count--) fills.push(known.fills[from.uint()]!)
  if (fills.length > 0) facts.traded = { cumulative_quote, cumulative_fee, fills }
  return facts
}

const output_row = struct({ note: uint, anchor: b32, order_id: fixed(16), nonce: u64, index_role: uint })

/** `at` is the index in the table of exits, or in that of withdrawals and reshapes. */
const payment_ref = struct({ exit: bool, at: uint })

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

const PAYOUT_PROGRESS = {
  payout_number: uint,
  payout_stage: option(word(PAYOUT_STAGES)),
  payout_signature: option(text),
  refund_commitment: option(b32),
}

export const withdrawal_row = struct({
  withdrawal_id: hex(16),
  key: uint,
  note: uint,
  commitment: b32,
  destination: b32,
  amount: u64,
  fee: u64,
  nonce: u64,
  change_anchor: b32,
  expiry_slot: uint,
  accepted_slot: uint,
  change: option(uint),
  status: word(['accepted', 'submitted', 'confirmed', 'finalized', 'paid', 'refunded', 'voided']),
  refund_blinding: option(b32),
  ...PAYOUT_PROGRESS,
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
  commitments: list(b32),
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
  nullifier: b32,
  commitment: b32,
  ...EXIT_TERMS,
  accepted_slot: uint,
  leaf_index: option(uint),
  note: option(uint),
  settlement_batch: uint,
  ...PAYOUT_PROGRESS,
})

/** Exactly one of the two. */
const queued_row = struct({ payment: option(payment_ref), restored: option(struct(PAYOUT_TERMS)) })

export const settlement_row = struct({
  last_batch: uint,
  last_hashed: uint,
  unlanded: uint,
  waiting: list(payment_ref),
  queued: list(queued_row),
  next_payout: uint,
  payouts_open: uint,
  queue_capacity: uint,
  fees: list(u64),
  fee_day: uint,
  leaf_count_min: uint,
  landed: option(struct({ batch_id: uint, signature: fixed(64), slot: uint })),
})
