/**
 * Decodes the events of the vault program: inner instructions that the program sends to itself.
 *
 * Data: 0 discriminator 255 · 1 event kind u8 · fields in the order of the type's fields. Only the program can sign for
 * the config account that such an instruction names, so an inner instruction of the program with this discriminator in
 * a successful transaction is genuine. Readers index these and nothing else. Kinds and layouts are only added.
 */
import { decodeBase58 } from '../base58'
import { INNER_DATA_CHARACTERS_MAX } from '../limits'
import { INSTRUCTION } from './instruction'
import { LayoutReader, readLayout } from './layout'
import { PAYOUT_KINDS, type PayoutKind, type SettleOutput } from './settle'

export type DepositedEvent = {
  kind: 'deposited'
  leaf_index: number
  mint: Uint8Array
  amount: bigint
  inner: Uint8Array
  commitment: Uint8Array
  /** Note root after the append. */
  note_root: Uint8Array
  depositor: Uint8Array
}

/** In the order of their numbers; each but the first returns the amount as a refund note. */
const PAYOUT_OUTCOMES = [
  'paid',
  'destination_missing',
  'destination_wrong_mint',
  'destination_uninitialized',
  'destination_frozen',
  'destination_is_vault',
  'destination_refuses',
  'vault_frozen',
] as const
export type PayoutOutcome = (typeof PAYOUT_OUTCOMES)[number]

export type PayoutResult = {
  kind: PayoutKind
  outcome: PayoutOutcome
  mint: Uint8Array
  amount: bigint
  destination: Uint8Array
  inner: Uint8Array
  /** Exits: the request's nullifier. */
  nullifier: Uint8Array | undefined
  /** The refund note, in deposit form; undefined when paid. */
  refund: { leaf_index: number; commitment: Uint8Array } | undefined
}

/**
 * One landed settlement batch.
 *
 * After kind: batch · epoch · first_leaf_index · note_root (32) · spent_root (32) · spent_count · counts (nullifiers,
 * outputs, payouts, one byte each) · zero u8 · nullifiers · outputs · payouts (178 bytes each: kind u8, outcome u8,
 * mint, amount, destination, refund_leaf_index, refund_commitment, inner, nullifier). Output i has leaf index
 * `first_leaf_index + i`; refund notes follow the outputs in payout order.
 */
export type SettledEvent = {
  kind: 'settled'
  batch: number
  epoch: number
  first_leaf_index: number
  /** Roots and count after the batch. */
  note_root: Uint8Array
  spent_root: Uint8Array
  spent_count: number
  nullifiers: Uint8Array[]
  outputs: SettleOutput[]
  payouts: PayoutResult[]
}

type EpochOpenedEvent = {
  kind: 'epoch_opened'
  epoch: number
  generation: number
  boot_nonce: Uint8Array
  compose_hash: Uint8Array
  journal_seq: number
  journal_head: Uint8Array
  restored: boolean
}

export type ExitRequestedEvent = {
  kind: 'exit_requested'
  nullifier: Uint8Array
  commitment: Uint8Array
  leaf_index: number
  mint: Uint8Array
  amount: bigint
  destination: Uint8Array
  refund_inner: Uint8Array
  deadline_s: number
}

type ExitRefusedEvent = { kind: 'exit_refused'; nullifier: Uint8Array; refuser: Uint8Array }

/** `first` is true for the request that froze the vault, false for a request that was only closed. */
type FrozenEvent = { kind: 'frozen'; nullifier: Uint8Array; frozen_at_s: number; first: boolean }

type EscapedEvent = {
  kind: 'escaped'
  nullifier: Uint8Array
  mint: Uint8Array
  amount: bigint
  destination: Uint8Array
}

export type VaultEvent =
  | DepositedEvent
  | SettledEvent
  | EpochOpenedEvent
  | ExitRequestedEvent
  | ExitRefusedEvent
  | FrozenEvent
  | EscapedEvent

export const EVENT_KIND = {
  deposited: 1,
  settled: 2,
  epoch_opened: 3,
  exit_requested: 4,
  exit_refused: 5,
  frozen: 6,
  escaped: 7,
} as const satisfies Record<VaultEvent['kind'], number>

function readPayout(reader: LayoutReader): PayoutResult {
  const [kind, outcome] = [PAYOUT_KINDS[reader.u8()], PAYOUT_OUTCOMES[reader.u8()]]
  if (kind === undefined || outcome === undefined) throw new RangeError('unknown payout kind or outcome')
  const [mint, amount, destination] = [reader.bytes(32), reader.u64(), reader.bytes(32)]
  const refund = { leaf_index: reader.count(), commitment: reader.bytes(32) }
  const [inner, nullifier] = [reader.bytes(32), reader.bytes(32)]
  return {
    kind,
    outcome,
    mint,
    amount,
    destination,
    inner,
    nullifier: kind === 'exit' ? nullifier : undefined,
    refund: outcome === 'paid' ? undefined : refund,
  }
}

/** @throws RangeError when the bytes end early. */
function readSettled(reader: LayoutReader): SettledEvent {
  const header = {
    batch: reader.count(),
    epoch: reader.count(),
    first_leaf_index: reader.count(),
    note_root: reader.bytes(32),
    spent_root: reader.bytes(32),
    spent_count: reader.count(),
  }
  const [nullifiers, outputs, payouts] = [reader.u8(), reader.u8(), reader.u8()]
  reader.skip(1)
  return {
    kind: 'settled',
    ...header,
    nullifiers: Array.from({ length: nullifiers }, () => reader.bytes(32)),
    outputs: Array.from({ length: outputs }, () => ({
      commitment: reader.bytes(32),
      memo: reader.bytes(16),
    })),
    payouts: Array.from({ length: payouts }, () => readPayout(reader)),
  }
}

const READERS: Readonly<Record<number, (reader: LayoutReader) => VaultEvent>> = {
  [EVENT_KIND.deposited]: (reader) => ({
    kind: 'deposited',
    leaf_index: reader.count(),
    mint: reader.bytes(32),
    amount: reader.u64(),
    inner: reader.bytes(32),
    commitment: reader.bytes(32),
    note_root: reader.bytes(32),
    depositor: reader.bytes(32),
  }),
  [EVENT_KIND.settled]: readSettled,
  [EVENT_KIND.epoch_opened]: (reader) => ({
    kind: 'epoch_opened',
    epoch: reader.count(),
    generation: reader.count(),
    boot_nonce: reader.bytes(16),
    compose_hash: reader.bytes(32),
    journal_seq: reader.count(),
    journal_head: reader.bytes(32),
    restored: reader.u8() !== 0,
  }),
  [EVENT_KIND.exit_requested]: (reader) => ({
    kind: 'exit_requested',
    nullifier: reader.bytes(32),
    commitment: reader.bytes(32),
    leaf_index: reader.count(),
    mint: reader.bytes(32),
    amount: reader.u64(),
    destination: reader.bytes(32),
    refund_inner: reader.bytes(32),
    deadline_s: reader.count(),
  }),
  [EVENT_KIND.exit_refused]: (reader) => ({
    kind: 'exit_refused',
    nullifier: reader.bytes(32),
    refuser: reader.bytes(32),
  }),
  [EVENT_KIND.frozen]: (reader) => ({
    kind: 'frozen',
    nullifier: reader.bytes(32),
    frozen_at_s: reader.count(),
    first: reader.u8() !== 0,
  }),
  [EVENT_KIND.escaped]: (reader) => ({
    kind: 'escaped',
    nullifier: reader.bytes(32),
    mint: reader.bytes(32),
    amount: reader.u64(),
    destination: reader.bytes(32),
  }),
}

/** The event in an inner instruction's data; undefined when the data is not exactly one event. */
export function decodeEvent(data: Uint8Array): VaultEvent | undefined {
  if (data[0] !== INSTRUCTION.emit || data[1] === undefined) return undefined
  const reader = new LayoutReader(data, 2)
  const read = READERS[data[1]]
  const event = read && readLayout(() => read(reader))
  return reader.atEnd() ? event : undefined
}

/** Of `meta.innerInstructions`: the calls of outer instruction `index`, in order; `data` is base58. */
type InnerGroup = {
  readonly index: number
  readonly instructions: readonly { readonly programIdIndex: number; readonly data: string }[]
}

/** The accounts of a transaction: its own, and those loaded from lookup tables. */
type NamedAccounts = {
  readonly own: readonly string[]
  readonly loaded?:
    | { readonly writable: readonly string[]; readonly readonly: readonly string[] }
    | null
    | undefined
}

/** `outer`: index of the outer instruction; `inner`: index of the call within its group. */
type InnerData = { outer: number; inner: number; data: Uint8Array }

/**
 * Data of the calls that `program` received from programs in one landed transaction, its own events included, in the
 * order of execution. An instruction with an unknown account, malformed base58 or too much data is skipped: no honest
 * node sends one.
 */
export function innerDataOf(
  program: string,
  { own, loaded }: NamedAccounts,
  groups: readonly InnerGroup[] | null | undefined,
): InnerData[] {
  const addresses = [...own, ...(loaded?.writable ?? []), ...(loaded?.readonly ?? [])]
  const found: InnerData[] = []
  for (const { index: outer, instructions } of groups ?? []) {
    for (const [inner, { programIdIndex, data: text }] of instructions.entries()) {
      if (addresses[programIdIndex] !== program || text.length > INNER_DATA_CHARACTERS_MAX) continue
      const data = decodeBase58(text)
      if (data !== undefined) found.push({ outer, inner, data })
    }
  }
  return found
}
