/**
 * Describes and decodes the accounts of the vault program. Every account begins with kind u8, version u8 and its bump
 * u8. A decoder answers undefined for data that is not exactly its layout. Callers check that the program owns the account.
 */

import { isZero } from '../bytes'
import {
  array,
  bool,
  type Codec,
  constant,
  fixed,
  mapped,
  struct,
  u8,
  u16,
  u32,
  u64,
  uint,
  type ValueOf,
  word,
  zeros,
} from '../codec'
import { TREE_DEPTH } from '../limits'
import { ANNOUNCEMENT_FIELDS } from './admin'
import { PLATFORM_FIELDS } from './epochs'
import { decoded, orZeros } from './instruction'
import { PAYOUT_KINDS } from './settle'

const ACCOUNT_VERSION = 2
const head = (kind: number) => constant(Uint8Array.of(kind, ACCOUNT_VERSION))

/** An announced change; `effective_at_s` in unix seconds of the chain's clock. */
type PendingKey = { key: Uint8Array; effective_at_s: number }

const pendingKey: Codec<PendingKey | undefined> = mapped(
  struct({ key: fixed(32), effective_at_s: uint }),
  (pending): PendingKey | undefined => (isZero(pending.key) ? undefined : pending),
  (pending) => pending ?? { key: new Uint8Array(32), effective_at_s: 0 },
)

/** 528 bytes. */
export const CONFIG = struct({
  head: head(1),
  bump: u8,
  paused: bool,
  frozen: bool,
  zero: zeros(1),
  /** Registered mints. */
  mint_count: u16,
  generation: uint,
  /** 0 until the first opening. */
  epoch: uint,
  /** 0 until the first `settle`; also the number of leaves of the spent log. */
  last_batch: uint,
  exit_delay_s: uint,
  journal_seq: uint,
  journal_head: fixed(32),
  admin: fixed(32),
  /** Of the epoch, accepted with a quote; zeros until the first one. */
  settlement_signer: fixed(32),
  /** Of the instance that opened the epoch. */
  boot_nonce: fixed(16),
  compose_hash: fixed(32),
  epoch_slot: uint,
  /** Journal position of the last commit (`anchor` with a limit of time); 0 and zeros before the first. */
  commit_seq: uint,
  commit_head: fixed(32),
  pending_admin: pendingKey,
  /** Unix seconds from which an opening may restore; 0 when nothing is announced. */
  pending_restore_at_s: uint,
  /** Unix seconds of the last pause, 0 when never paused. */
  paused_at_s: uint,
  /** Unix seconds of the freeze, 0 when not frozen. */
  frozen_at_s: uint,
  /** Venue id of the present generation. */
  venue: fixed(32),
  genesis_hash: fixed(32),
  outage_at_s: uint,
  outage_extra_s: uint,
  /** Spent nullifiers. */
  spent_count: uint,
  /** Leaves of the note tree after the last batch. */
  settled_leaf_count: uint,
  tree: fixed(32),
  ring: fixed(32),
  queue: fixed(32),
  /** Leaves of the note tree at the freeze: later ones are refund notes of the payout queue. */
  frozen_leaf_count: uint,
  reserved: zeros(24),
})
export type ConfigAccount = ValueOf<typeof CONFIG>

/**
 * Note tree and spent log, 2,640 bytes. Entry h of a frontier: the left sibling that the next leaf needs at height h,
 * meaningful only where bit h of the leaf count is set.
 */
export const TREE = struct({
  head: head(2),
  bump: u8,
  zero: zeros(5),
  leaf_count: uint,
  root: fixed(32),
  frontier: array(fixed(32), TREE_DEPTH),
  spent_root: fixed(32),
  spent_frontier: array(fixed(32), TREE_DEPTH),
})
export type TreeAccount = ValueOf<typeof TREE>

const STATES = 120

/** Known states, 9,616 bytes: a ring, `next` is the place written next. */
export const RING = struct({
  head: head(3),
  bump: u8,
  zero: zeros(5),
  next: u32,
  length: u32,
  /** `slot` is when the state was left. */
  states: array(struct({ slot: uint, leaf_count: uint, root: fixed(32), spent_root: fixed(32) }), STATES),
})
type KnownState = ValueOf<typeof RING>['states'][number]
/** Earlier states, oldest first. */
export type RingAccount = { states: KnownState[] }

const u128: Codec<bigint> = {
  ...mapped(
    array(u64, 2),
    ([low, high]) => low! | (high! << 64n),
    (value) => [value & 0xffff_ffff_ffff_ffffn, value >> 64n],
  ),
  shape: { kind: 'uint', bytes: 16 },
}

/** 224 bytes. */
export const MINT_RECORD = struct({
  head: head(4),
  bump: u8,
  vault_bump: u8,
  decimals: u8,
  /** The mint has a freeze authority. */
  freezable: bool,
  /** Order of registration, from 0. */
  mint_index: u16,
  mint: fixed(32),
  token_program: fixed(32),
  vault_token: fixed(32),
  min_deposit: u64,
  min_exit: u64,
  /** Base units owed to notes and accrued fees. */
  liabilities: u64,
  /** Base units owed to entries of the payout queue, and in a frozen vault to the refund notes they became. */
  queued: u64,
  /** Amounts of all window claims that were not challenged before `window_fixed_at_s`. */
  window_total: u128,
  /** The vault's balance less `queued` when the first claim was paid; 0 before. */
  window_base: u64,
  /** Part of the base that window claims wait for; 0 before the first payment. */
  window_owed: u64,
  /** Unix seconds of the first payment of a claim: base and total are fixed; 0 before. */
  window_fixed_at_s: uint,
  reserved: zeros(48),
})
export type MintRecord = ValueOf<typeof MINT_RECORD>

/** 240 bytes. The account's lamports are rent plus the bond. */
export const EXIT_REQUEST = struct({
  head: head(5),
  bump: u8,
  /** A batch has queued the payout. */
  served: bool,
  zero: zeros(4),
  nullifier: fixed(32),
  commitment: fixed(32),
  mint: fixed(32),
  amount: u64,
  destination: fixed(32),
  refund_inner: fixed(32),
  bond_payer: fixed(32),
  /** Unix seconds of the chain's clock. */
  deadline_s: uint,
  requested_slot: uint,
  reserved: zeros(16),
})
export type ExitRequest = ValueOf<typeof EXIT_REQUEST>

const ESCAPE_STATES = ['open', 'paid', 'cancelled'] as const
/**
 * `window`: claimed within one `exit_delay_s` of the freeze, paid its share of the base. `late`: claimed later, paid from the
 * rest after window claims. `refund`: a refund note that `pay` appended after the freeze, paid in full from `queued`.
 */
export const ESCAPE_RANKS = ['late', 'window', 'refund'] as const

/** 200 bytes; stays when paid or cancelled, so a note has one claim at most. Its bond is 0.05 SOL beyond rent. */
export const ESCAPE_CLAIM = struct({
  head: head(8),
  bump: u8,
  state: word(ESCAPE_STATES),
  rank: word(ESCAPE_RANKS),
  zero: zeros(3),
  nullifier: fixed(32),
  mint: fixed(32),
  amount: u64,
  destination: fixed(32),
  /** Trading key that owns the note. */
  owner: fixed(32),
  bond_payer: fixed(32),
  /** Unix seconds of the chain's clock. */
  claimed_at_s: uint,
  /** Changes of the destination. */
  sequence: uint,
  /** Base units paid; 0 before. */
  paid: u64,
})
export type EscapeClaim = ValueOf<typeof ESCAPE_CLAIM>

/** 136 bytes, one for each topic. `next` takes the place of `value` at `next_at_s`, also while the record does not show it yet. */
const ANNOUNCEMENT = struct({ head: head(9), bump: u8, ...ANNOUNCEMENT_FIELDS })
export type AnnouncementAccount = ValueOf<typeof ANNOUNCEMENT>

/** 112 bytes, one for each PCK certificate: keys are x with their parity apart. */
const PLATFORM = struct({ head: head(10), bump: u8, ...PLATFORM_FIELDS })
export type PlatformAccount = ValueOf<typeof PLATFORM>

const QUEUE_ENTRY = struct({
  /** Never reused; 0 in a place that was never taken. */
  number: uint,
  open: bool,
  kind: word(PAYOUT_KINDS),
  zero: zeros(2),
  /** Of a free entry: place plus one of the next free one. */
  next_free: u32,
  queued_at_s: uint,
  queued_slot: uint,
  mint: fixed(32),
  amount: u64,
  destination: fixed(32),
  /** Inner hash of the refund note. */
  inner: fixed(32),
  /** Exits: the request's nullifier. */
  nullifier: orZeros(fixed(32)),
})
type QueueEntry = ValueOf<typeof QUEUE_ENTRY>

const QUEUE_HEADER = struct({
  head: head(7),
  bump: u8,
  zero: zeros(5),
  /** From 1. */
  next_number: uint,
  open: u32,
  free_head: u32,
  used: u32,
  capacity: u32,
  reserved: zeros(128),
})

const queueLayout = (capacity: number) =>
  struct({ header: QUEUE_HEADER, entries: array(QUEUE_ENTRY, capacity) })

/** Entries of the queue after `initialize`, and added by each `grow_queue`. */
const QUEUE_GROWTH = 60

/** Layouts by kind of account; the queue's header is followed by its entries. */
export const ACCOUNT_LAYOUTS = {
  config: CONFIG,
  tree: TREE,
  ring: RING,
  mint_record: MINT_RECORD,
  exit_request: EXIT_REQUEST,
  escape_claim: ESCAPE_CLAIM,
  announcement: ANNOUNCEMENT,
  platform: PLATFORM,
  /** With the first 60 entries. */
  queue: queueLayout(QUEUE_GROWTH),
} as const

/** Sizes by kind of account. */
export const ACCOUNT_BYTES = Object.fromEntries(
  Object.entries(ACCOUNT_LAYOUTS).map(([kind, { size }]) => [kind, size]),
) as Record<keyof typeof ACCOUNT_LAYOUTS, number>

export const decodeConfig = (data: Uint8Array): ConfigAccount | undefined => decoded(CONFIG, data)
export const decodeTree = (data: Uint8Array): TreeAccount | undefined => decoded(TREE, data)
export const decodeMintRecord = (data: Uint8Array): MintRecord | undefined => decoded(MINT_RECORD, data)
export const decodeExitRequest = (data: Uint8Array): ExitRequest | undefined => decoded(EXIT_REQUEST, data)
export const decodeEscapeClaim = (data: Uint8Array): EscapeClaim | undefined => decoded(ESCAPE_CLAIM, data)

export const decodeAnnouncement = (data: Uint8Array): AnnouncementAccount | undefined =>
  decoded(ANNOUNCEMENT, data)

export const decodePlatform = (data: Uint8Array): PlatformAccount | undefined => decoded(PLATFORM, data)

export function decodeRing(data: Uint8Array): RingAccount | undefined {
  const ring = decoded(RING, data)
  if (ring === undefined) return undefined
  const { states, next, length } = ring
  return {
    states: length < STATES ? states.slice(0, length) : [...states.slice(next), ...states.slice(0, next)],
  }
}

export type QueueAccount = {
  next_number: number
  /** Places of the queue, free ones included. */
  capacity: number
  /** Open entries with their places, in the order of places. */
  entries: (QueueEntry & { place: number })[]
}

export function decodeQueue(data: Uint8Array): QueueAccount | undefined {
  const capacity = (data.length - QUEUE_HEADER.size!) / QUEUE_ENTRY.size!
  if (!Number.isInteger(capacity) || capacity < 0) return undefined
  const queue = decoded(queueLayout(capacity), data)
  if (queue?.header.capacity !== capacity) return undefined
  const places = queue.entries.map((entry, place) => ({ ...entry, place }))
  return { next_number: queue.header.next_number, capacity, entries: places.filter(({ open }) => open) }
}
