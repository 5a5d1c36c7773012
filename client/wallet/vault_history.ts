/** Indexes the vault's whole public history for a wallet's lookups and rejects one with a gap. */

import { toHex } from '../../protocol/bytes'
import type { Amount } from '../../protocol/units'
import type { SettledEvent, VaultEvent } from '../../protocol/vault/events'

/** A settlement output with its memo. */
type ChainOutput = { commitment: Uint8Array; memo: Uint8Array; batch: number; leaf_index: number }
/** A note that the program made and its inner hash names: a deposit, or the refund of a payout. */
type ProgramNote = {
  commitment: Uint8Array
  mint: Uint8Array
  amount: Amount
  leaf_index: number
  origin: 'deposit' | 'refund'
}

export type VaultHistory = {
  /** Commitments by leaf index. */
  leaves: readonly Uint8Array[]
  /** Nullifiers of each batch, in the order they entered the spent tree. */
  nullifier_batches: readonly (readonly Uint8Array[])[]
  /** Batch by hex of each nullifier it spent. */
  spent: ReadonlyMap<string, number>
  /** Hex of nullifiers that left by an exit payout, paid or refunded: also in `spent`. */
  exited: ReadonlySet<string>
  /** Hex of nullifiers that escaped from a frozen vault: never in `spent`. */
  escaped: ReadonlySet<string>
  /** By hex of the memo's first 8 bytes; equal tags share an entry. */
  outputs_by_tag: ReadonlyMap<string, readonly ChainOutput[]>
  /** By hex of the inner hash; one inner may be used more than once. */
  program_notes: ReadonlyMap<string, readonly ProgramNote[]>
  /** Hex of the inner hashes of withdrawals, whether paid or refunded. */
  withdrawal_inners: ReadonlySet<string>
  /** Hex of the refund inner hashes of exit requests. */
  exit_inners: ReadonlySet<string>
  /** Every mint that was ever deposited, hence every mint of a note. */
  mints: readonly Uint8Array[]
}

/** The node does not serve the whole history, so no result built on it could be complete. */
export class HistoryIncomplete extends Error {
  constructor(part: string) {
    super(`${part} is missing: ask a node that keeps the whole history`)
    this.name = 'HistoryIncomplete'
  }
}

const TAG_BYTES = 8
export const tagOf = (memo: Uint8Array): string => toHex(memo.subarray(0, TAG_BYTES))

class HistoryBuilder {
  readonly leaves: Uint8Array[] = []
  readonly nullifier_batches: Uint8Array[][] = []
  readonly spent = new Map<string, number>()
  readonly exited = new Set<string>()
  readonly escaped = new Set<string>()
  readonly outputs_by_tag = new Map<string, ChainOutput[]>()
  readonly program_notes = new Map<string, ProgramNote[]>()
  readonly withdrawal_inners = new Set<string>()
  readonly exit_inners = new Set<string>()
  readonly mints: Uint8Array[] = []
  private readonly known_mints = new Set<string>()

  leaf(leaf_index: number, commitment: Uint8Array): void {
    if (leaf_index !== this.leaves.length) throw new HistoryIncomplete(`leaf ${this.leaves.length}`)
    this.leaves.push(commitment)
  }

  programNote(inner: Uint8Array, note: ProgramNote): void {
    this.leaf(note.leaf_index, note.commitment)
    append(this.program_notes, toHex(inner), note)
    const mint = toHex(note.mint)
    if (this.known_mints.has(mint)) return
    this.known_mints.add(mint)
    this.mints.push(note.mint)
  }

  settled(event: SettledEvent): void {
    const { batch, first_leaf_index } = event
    event.outputs.forEach(({ commitment, memo }, at) => {
      const leaf_index = first_leaf_index + at
      this.leaf(leaf_index, commitment)
      append(this.outputs_by_tag, tagOf(memo), { commitment, memo, batch, leaf_index })
    })
    for (const { kind, inner, nullifier, refund, mint, amount } of event.payouts) {
      if (kind === 'withdrawal') this.withdrawal_inners.add(toHex(inner))
      if (nullifier !== undefined) this.exited.add(toHex(nullifier))
      if (refund !== undefined) this.programNote(inner, { ...refund, mint, amount, origin: 'refund' })
    }
  }

  nullifiers({ batch, nullifiers, spent_count }: SettledEvent): void {
    if (batch !== this.nullifier_batches.length + 1)
      throw new HistoryIncomplete(`batch ${this.nullifier_batches.length + 1}`)
    this.nullifier_batches.push(nullifiers)
    for (const nullifier of nullifiers) this.spent.set(toHex(nullifier), batch)
    if (this.spent.size !== spent_count) throw new HistoryIncomplete(`a nullifier of batch ${batch}`)
  }
}

function append<T>(lists: Map<string, T[]>, name: string, value: T): void {
  const list = lists.get(name)
  if (list === undefined) lists.set(name, [value])
  else list.push(value)
}

/**
 * Builds the index from the events of all transactions, in any order: leaf indexes and batch numbers define theirs.
 * @throws HistoryIncomplete when a leaf, a batch or a nullifier is missing
 */
export function vaultHistory(events: readonly VaultEvent[]): VaultHistory {
  const history = new HistoryBuilder()
  const appends = events.filter((event) => event.kind === 'deposited' || event.kind === 'settled')
  // A batch without leaves shares its index with the next leaf; either order is valid.
  appends.sort((a, b) => firstLeaf(a) - firstLeaf(b))
  for (const event of appends) {
    if (event.kind === 'settled') history.settled(event)
    else history.programNote(event.inner, { ...event, origin: 'deposit' })
  }
  const batches = events.filter((event) => event.kind === 'settled').sort((a, b) => a.batch - b.batch)
  for (const event of batches) history.nullifiers(event)
  for (const event of events) {
    if (event.kind === 'exit_requested') history.exit_inners.add(toHex(event.refund_inner))
    if (event.kind === 'escaped') history.escaped.add(toHex(event.nullifier))
  }
  return history
}

function firstLeaf(event: VaultEvent & { kind: 'deposited' | 'settled' }): number {
  return event.kind === 'settled' ? event.first_leaf_index : event.leaf_index
}

/** Looks a refund's commitment up for `adoptRefunds` without a venue. */
export function leafFinder({ leaves }: VaultHistory): (commitment: string) => Promise<number | undefined> {
  const places = new Map(leaves.map((leaf, at) => [toHex(leaf), at]))
  return async (commitment) => places.get(commitment)
}
