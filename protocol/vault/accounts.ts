/**
 * Decodes the accounts of the vault program. Every account starts with kind u8, version u8 (1) and its
 * bump u8; integers are little-endian; a decoder answers undefined for data that is not exactly its layout. Callers
 * check that the program owns the account.
 */
import { LayoutReader, readLayout } from './layout'

export const ACCOUNT_KIND = {
  config: 1,
  tree: 2,
  ring: 3,
  mint_record: 4,
  exit_request: 5,
  escape_record: 6,
} as const

export const ACCOUNT_BYTES = {
  config: 448,
  tree: 1_072,
  ring: 7_200,
  mint_record: 160,
  exit_request: 240,
  escape_record: 48,
} as const

const ACCOUNT_VERSION = 1
const isZero = (bytes: Uint8Array): boolean => bytes.every((byte) => byte === 0)

function decodeAccount<T>(
  kind: keyof typeof ACCOUNT_KIND,
  data: Uint8Array,
  read: (reader: LayoutReader) => T,
): T | undefined {
  if (data.length !== ACCOUNT_BYTES[kind]) return undefined
  if (data[0] !== ACCOUNT_KIND[kind] || data[1] !== ACCOUNT_VERSION) return undefined
  return readLayout(() => read(new LayoutReader(data, 3)))
}

/** An announced change; `effective_at_s` in unix seconds of the chain's clock. */
export type PendingKey = { key: Uint8Array; effective_at_s: number }

export type ConfigAccount = {
  paused: boolean
  frozen: boolean
  /** Registered mints. */
  mint_count: number
  generation: number
  /** 0 until the first `open_epoch`. */
  epoch: number
  /** 0 until the first `settle`. */
  last_batch: number
  exit_delay_s: number
  journal_seq: number
  journal_head: Uint8Array
  admin: Uint8Array
  settlement_signer: Uint8Array
  /** 16 bytes of the instance that opened the epoch. */
  boot_nonce: Uint8Array
  compose_hash: Uint8Array
  epoch_slot: number
  /** Spent nullifiers, without leaf 0 of their tree. */
  spent_count: number
  spent_root: Uint8Array
  pending_signer: PendingKey | undefined
  pending_admin: PendingKey | undefined
  /** Unix seconds from which `open_epoch` may restore; undefined when nothing is announced. */
  pending_restore_at_s: number | undefined
  /** Unix seconds of the last pause, 0 when never paused. */
  paused_at_s: number
  /** Unix seconds of the freeze, 0 when not frozen. */
  frozen_at_s: number
}

/**
 * Config, 448 bytes: 3 paused u8 · 4 frozen u8 · 6 mint_count u16 · 8 generation · 16 epoch · 24 last_batch ·
 * 32 exit_delay_s · 40 journal_seq · 48 journal_head (32) · 80 admin (32) · 112 settlement_signer (32) ·
 * 144 boot_nonce (16) · 160 compose_hash (32) · 192 epoch_slot · 200 spent_count · 208 spent_root (32) ·
 * 240 pending_signer (32) · 272 effective_at_s · 280 pending_admin (32) · 312 effective_at_s ·
 * 320 pending_restore_at_s · 328 paused_at_s · 336 frozen_at_s · 344 reserved zeros (104).
 */
export function decodeConfig(data: Uint8Array): ConfigAccount | undefined {
  return decodeAccount('config', data, (reader) => ({
    paused: reader.u8() !== 0,
    frozen: reader.u8() !== 0,
    mint_count: reader.skip(1).u16(),
    generation: reader.count(),
    epoch: reader.count(),
    last_batch: reader.count(),
    exit_delay_s: reader.count(),
    journal_seq: reader.count(),
    journal_head: reader.bytes(32),
    admin: reader.bytes(32),
    settlement_signer: reader.bytes(32),
    boot_nonce: reader.bytes(16),
    compose_hash: reader.bytes(32),
    epoch_slot: reader.count(),
    spent_count: reader.count(),
    spent_root: reader.bytes(32),
    pending_signer: readPendingKey(reader),
    pending_admin: readPendingKey(reader),
    pending_restore_at_s: reader.count() || undefined,
    paused_at_s: reader.count(),
    frozen_at_s: reader.count(),
  }))
}

function readPendingKey(reader: LayoutReader): PendingKey | undefined {
  const [key, effective_at_s] = [reader.bytes(32), reader.count()]
  return isZero(key) ? undefined : { key, effective_at_s }
}

export type TreeAccount = { leaf_count: number; root: Uint8Array; frontier: Uint8Array[] }

/**
 * Note tree, 1,072 bytes: 8 leaf_count · 16 root (32) · 48 frontier (32 × 32): entry h is the left sibling the next
 * leaf needs at height h, meaningful only where bit h of leaf_count is set.
 */
export function decodeTree(data: Uint8Array): TreeAccount | undefined {
  return decodeAccount('tree', data, (reader) => ({
    leaf_count: reader.skip(5).count(),
    root: reader.bytes(32),
    frontier: Array.from({ length: 32 }, () => reader.bytes(32)),
  }))
}

type NoteState = { slot: number; leaf_count: number; root: Uint8Array }
export type RingAccount = {
  /** Earlier states, oldest first; `slot` is when the state was left. */
  states: NoteState[]
  /** Earlier spent roots, oldest first. */
  spent_roots: Uint8Array[]
}

/**
 * Known states, 7,200 bytes: 8 next u32 · 12 length u32 · 16 states (128 × 48: slot, leaf_count, root) ·
 * 6,160 spent next u32 · 6,164 spent length u32 · 6,168 spent roots (32 × 32) · 7,192 reserved (8).
 */
export function decodeRing(data: Uint8Array): RingAccount | undefined {
  return decodeAccount('ring', data, (reader) => {
    const [next, length] = [reader.skip(5).u32(), reader.u32()]
    const states = Array.from({ length: 128 }, () => ({
      slot: reader.count(),
      leaf_count: reader.count(),
      root: reader.bytes(32),
    }))
    const [spent_next, spent_length] = [reader.u32(), reader.u32()]
    const spent_roots = Array.from({ length: 32 }, () => reader.bytes(32))
    return {
      states: oldestFirst(states, next, length),
      spent_roots: oldestFirst(spent_roots, spent_next, spent_length),
    }
  })
}

function oldestFirst<T>(entries: T[], next: number, length: number): T[] {
  return length < entries.length
    ? entries.slice(0, length)
    : [...entries.slice(next), ...entries.slice(0, next)]
}

/** True when `(leaf_count, root)` is the tree's state now or one the ring still holds. */
export function isKnownState(state: Omit<NoteState, 'slot'>, tree: TreeAccount, ring: RingAccount): boolean {
  const same = (other: { leaf_count: number; root: Uint8Array }): boolean =>
    other.leaf_count === state.leaf_count && other.root.every((byte, at) => byte === state.root[at])
  return same(tree) || ring.states.some(same)
}

export type MintRecord = {
  vault_bump: number
  decimals: number
  /** The mint has a freeze authority. */
  freezable: boolean
  /** Order of registration, from 0. */
  mint_index: number
  mint: Uint8Array
  token_program: Uint8Array
  vault_token: Uint8Array
  min_deposit: bigint
  min_exit: bigint
  /** Base units owed to notes and accrued fees. */
  liabilities: bigint
}

/**
 * Mint record, 160 bytes: 3 vault_bump u8 · 4 decimals u8 · 5 freezable u8 · 6 mint_index u16 · 8 mint (32) ·
 * 40 token_program (32) · 72 vault_token (32) · 104 min_deposit · 112 min_exit · 120 liabilities · 128 reserved (32).
 */
export function decodeMintRecord(data: Uint8Array): MintRecord | undefined {
  return decodeAccount('mint_record', data, (reader) => ({
    vault_bump: reader.u8(),
    decimals: reader.u8(),
    freezable: reader.u8() !== 0,
    mint_index: reader.u16(),
    mint: reader.bytes(32),
    token_program: reader.bytes(32),
    vault_token: reader.bytes(32),
    min_deposit: reader.u64(),
    min_exit: reader.u64(),
    liabilities: reader.u64(),
  }))
}

export type ExitRequest = {
  nullifier: Uint8Array
  commitment: Uint8Array
  mint: Uint8Array
  amount: bigint
  destination: Uint8Array
  refund_inner: Uint8Array
  bond_payer: Uint8Array
  /** Unix seconds of the chain's clock. */
  deadline_s: number
  requested_slot: number
}

/**
 * Exit request, 240 bytes: 8 nullifier (32) · 40 commitment (32) · 72 mint (32) · 104 amount · 112 destination (32) ·
 * 144 refund_inner (32) · 176 bond_payer (32) · 208 deadline_s · 216 requested_slot · 224 reserved (16).
 * The account's lamports are rent plus the bond.
 */
export function decodeExitRequest(data: Uint8Array): ExitRequest | undefined {
  return decodeAccount('exit_request', data, (reader) => ({
    nullifier: reader.skip(5).bytes(32),
    commitment: reader.bytes(32),
    mint: reader.bytes(32),
    amount: reader.u64(),
    destination: reader.bytes(32),
    refund_inner: reader.bytes(32),
    bond_payer: reader.bytes(32),
    deadline_s: reader.count(),
    requested_slot: reader.count(),
  }))
}

/** Escape record, 48 bytes: 8 nullifier (32) · 40 amount u64. Its existence forbids a second escape. */
export function decodeEscapeRecord(data: Uint8Array): { nullifier: Uint8Array; amount: bigint } | undefined {
  return decodeAccount('escape_record', data, (reader) => ({
    nullifier: reader.skip(5).bytes(32),
    amount: reader.u64(),
  }))
}
