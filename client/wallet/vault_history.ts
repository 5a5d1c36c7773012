/** Indexes the vault's whole public history for a wallet's lookups and rejects one with a gap. */

import { toHex } from '../../protocol/bytes'
import { TacitError } from '../../protocol/tacit_error'
import type { Amount } from '../../protocol/units'
import type { EventOf, PayoutOutcome, VaultEvent } from '../../protocol/vault/events'

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

/** How far the exit of a note came; `served`: a batch queued its payout. */
export type VaultExit = {
  stage: 'requested' | 'refused' | 'served' | 'paid' | 'refunded'
  mint: Uint8Array
  amount: Amount
  /** Unix seconds of the request's deadline; undefined where a batch served a note without a request. */
  deadline_s?: number
  /** Number in the payout queue, from `served` on. */
  payout?: number
  /** Of the payment: the reason of a refund. */
  outcome?: PayoutOutcome
}

export type VaultHistory = {
  /** Commitments by leaf index. */
  leaves: readonly Uint8Array[]
  /** Nullifiers of each batch, in their order: batch n is a leaf of the spent log at n - 1. */
  nullifier_batches: readonly (readonly Uint8Array[])[]
  /** First batch by hex of each nullifier it spent. */
  spent: ReadonlyMap<string, number>
  /** By hex of the nullifier. */
  exits: ReadonlyMap<string, VaultExit>
  /** By hex of the memo's first 8 bytes; equal tags share an entry. */
  outputs_by_tag: ReadonlyMap<string, readonly ChainOutput[]>
  /** By hex of the inner hash; one inner may be used more than once. */
  program_notes: ReadonlyMap<string, readonly ProgramNote[]>
  /** Batch by hex of the inner hash of each withdrawal, whether queued, paid or refunded. */
  withdrawal_inners: ReadonlyMap<string, number>
  /** Hex of the refund inner hashes of exit requests. */
  exit_inners: ReadonlySet<string>
  /** Every mint that was ever deposited, hence every mint of a note. */
  mints: readonly Uint8Array[]
  /** Settlement key by epoch, each taken with a quote that the vault verified. */
  epoch_keys: ReadonlyMap<number, Uint8Array>
}

/** The history lacks a part, so no result built on it could be complete. */
export class HistoryIncomplete extends TacitError<{ part: string }> {
  override readonly name = 'HistoryIncomplete'
  readonly code = 'history_incomplete'
  constructor(part: string) {
    super(`the history lacks ${part}: ask a node that keeps all of it, or name an archive`, { part })
  }
}

/** The leaves or batches from `first` to `last`. */
export const rangeOf = (what: string, first: number, last: number): string =>
  first >= last ? `${what} ${first}` : `${what} ${first} to ${last}`

const TAG_BYTES = 8
export const tagOf = (memo: Uint8Array): string => toHex(memo.subarray(0, TAG_BYTES))

class HistoryBuilder {
  readonly leaves: Uint8Array[] = []
  readonly nullifier_batches: Uint8Array[][] = []
  readonly spent = new Map<string, number>()
  readonly outputs_by_tag = new Map<string, ChainOutput[]>()
  readonly program_notes = new Map<string, ProgramNote[]>()
  readonly withdrawal_inners = new Map<string, number>()
  readonly exit_inners = new Set<string>()
  readonly mints: Uint8Array[] = []
  private readonly known_mints = new Set<string>()
  private spent_count = 0

  leaf(leaf_index: number, commitment: Uint8Array): void {
    if (leaf_index !== this.leaves.length)
      throw new HistoryIncomplete(rangeOf('leaf', this.leaves.length, leaf_index - 1))
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

  settled({ batch, first_leaf_index, outputs, payouts }: EventOf<'settled'>): void {
    outputs.forEach(({ commitment, memo }, at) => {
      const leaf_index = first_leaf_index + at
      this.leaf(leaf_index, commitment)
      append(this.outputs_by_tag, tagOf(memo), { commitment, memo, batch, leaf_index })
    })
    for (const { kind, inner } of payouts)
      if (kind === 'withdrawal') this.withdrawal_inners.set(toHex(inner), batch)
  }

  /** The program accepts a nullifier that an earlier batch spent: the count is of all, not of different ones. */
  nullifiers({ batch, nullifiers, spent_count }: EventOf<'settled'>): void {
    const next = this.nullifier_batches.length + 1
    if (batch !== next) throw new HistoryIncomplete(rangeOf('settlement batch', next, batch - 1))
    this.nullifier_batches.push(nullifiers)
    for (const nullifier of nullifiers.map(toHex))
      if (!this.spent.has(nullifier)) this.spent.set(nullifier, batch)
    this.spent_count += nullifiers.length
    if (this.spent_count !== spent_count) throw new HistoryIncomplete(`a nullifier of batch ${batch}`)
  }
}

function append<T>(lists: Map<string, T[]>, name: string, value: T): void {
  const list = lists.get(name)
  if (list === undefined) lists.set(name, [value])
  else list.push(value)
}

export const eventsOfKind = <K extends VaultEvent['kind']>(events: readonly VaultEvent[], kind: K) =>
  events.filter((event): event is EventOf<K> => event.kind === kind)

/** An event that appended leaves at `first`; a batch may append none. */
type Append = { first: number; leaves: number; keep: (history: HistoryBuilder) => void }

function appendsOf(event: VaultEvent): Append[] {
  if (event.kind === 'settled') {
    const { first_leaf_index: first, outputs } = event
    return [{ first, leaves: outputs.length, keep: (history) => history.settled(event) }]
  }
  if (event.kind === 'deposited') {
    const note = { ...event, origin: 'deposit' } as const
    return [{ first: event.leaf_index, leaves: 1, keep: (history) => history.programNote(event.inner, note) }]
  }
  if (event.kind !== 'paid' || event.refund === undefined) return []
  const { refund, mint, amount, inner } = event
  const note = { ...refund, mint, amount, origin: 'refund' } as const
  return [{ first: refund.leaf_index, leaves: 1, keep: (history) => history.programNote(inner, note) }]
}

/**
 * Builds the index from the events of all transactions, in any order: leaf indexes and batch numbers define theirs.
 * @throws HistoryIncomplete when a leaf, a batch or a nullifier is missing
 */
export function vaultHistory(events: readonly VaultEvent[]): VaultHistory {
  const history = new HistoryBuilder()
  const appends = events.flatMap(appendsOf)
  appends.sort((a, b) => a.first - b.first || a.leaves - b.leaves)
  for (const { keep } of appends) keep(history)
  const batches = eventsOfKind(events, 'settled').sort((a, b) => a.batch - b.batch)
  for (const event of batches) history.nullifiers(event)
  for (const { refund_inner } of eventsOfKind(events, 'exit_requested'))
    history.exit_inners.add(toHex(refund_inner))
  const attested = eventsOfKind(events, 'epoch_attested')
  const epoch_keys = new Map(attested.map(({ epoch, settlement_signer }) => [epoch, settlement_signer]))
  return Object.assign(history, { exits: exitsOf(events), epoch_keys })
}

/** The exits of a vault by hex of the nullifier. A later stage replaces an earlier one in any order of events. */
export function exitsOf(events: readonly VaultEvent[]): Map<string, VaultExit> {
  const exits = new Map<string, VaultExit>()
  const reach = (nullifier: Uint8Array, exit: VaultExit): void => {
    const name = toHex(nullifier)
    exits.set(name, { ...exits.get(name), ...exit })
  }
  for (const { nullifier, mint, amount, deadline_s } of eventsOfKind(events, 'exit_requested'))
    reach(nullifier, { stage: 'requested', mint, amount, deadline_s })
  for (const { nullifier } of eventsOfKind(events, 'exit_refused')) {
    const requested = exits.get(toHex(nullifier))
    if (requested !== undefined) reach(nullifier, { ...requested, stage: 'refused' })
  }
  for (const { payouts } of eventsOfKind(events, 'settled'))
    for (const { nullifier, mint, amount, number } of payouts)
      if (nullifier !== undefined) reach(nullifier, { stage: 'served', mint, amount, payout: number })
  for (const { nullifier, mint, amount, number, outcome } of eventsOfKind(events, 'paid')) {
    const stage = outcome === 'paid' ? 'paid' : 'refunded'
    if (nullifier !== undefined) reach(nullifier, { stage, mint, amount, payout: number, outcome })
  }
  return exits
}

/** Looks a refund's commitment up for `adoptRefunds` without a venue. */
export function leafFinder({ leaves }: VaultHistory): (commitment: string) => Promise<number | undefined> {
  const places = new Map(leaves.map((leaf, at) => [toHex(leaf), at]))
  return async (commitment) => places.get(commitment)
}
