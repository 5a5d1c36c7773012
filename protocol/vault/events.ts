/**
 * Owns the events of the vault program: the data of inner instructions the program sends to itself.
 *
 * Data: 0 discriminator 255 · 1 event kind u8 · fields. Only the program can sign for the config account such an
 * instruction names, so an inner instruction of our program with this discriminator in a successful transaction is
 * genuine. Readers index these and nothing else. Field order is the order of the types' fields; kinds and layouts are
 * only added.
 */
import { INSTRUCTION } from './discriminators'
import { LayoutReader, readLayout } from './layout'
import { readSettled, type SettledEvent } from './settled_event'

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

export type EpochOpenedEvent = {
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

export type ExitRefusedEvent = { kind: 'exit_refused'; nullifier: Uint8Array; refuser: Uint8Array }

/** `first` is true for the request that froze the vault, false where one was only closed. */
export type FrozenEvent = { kind: 'frozen'; nullifier: Uint8Array; frozen_at_s: number; first: boolean }

export type EscapedEvent = {
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

/** The event an inner instruction's data carries; undefined when it is not exactly one. */
export function decodeEvent(data: Uint8Array): VaultEvent | undefined {
  if (data[0] !== INSTRUCTION.emit || data[1] === undefined) return undefined
  const reader = new LayoutReader(data, 2)
  const read = READERS[data[1]]
  const event = read && readLayout(() => read(reader))
  return reader.atEnd() ? event : undefined
}
