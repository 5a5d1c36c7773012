/** Recomputes both roots and the payout queue of a vault from its public events alone and compares them with its accounts. */

import { equalBytes, toHex } from '../../protocol/bytes'
import { TREE_DEPTH } from '../../protocol/limits'
import { MerkleTree, type SpentLog } from '../../protocol/notes/merkle_tree'
import { depositCommitment } from '../../protocol/notes/notes'
import type { EventOf, VaultEvent } from '../../protocol/vault/events'
import type { VaultState } from '../chain/read_vault'
import { rebuildLog } from '../exit/prepare_exit'
import { eventsOfKind, exitsOf, type VaultExit } from '../wallet/vault_history'

type PartAudit = {
  /** Contradictions with the account or within the history, one sentence each. */
  faults: string[]
  /** The first gap of the history; with a gap nothing is judged. */
  missing: string | undefined
}
export type RootAudit = PartAudit & {
  /** Leaves that the account counts; in the spent log each is a batch. */
  count: number
  /** Root the account holds. */
  expected: Uint8Array
  /** Root of the rebuilt tree; undefined when it could not be rebuilt. */
  found: Uint8Array | undefined
  /** Slots until the tree is full at the rate since the oldest known state; undefined without growth or gap. */
  slots_left: number | undefined
}
export type QueueAudit = PartAudit & {
  /** Open entries. */
  length: number
  capacity: number
  /** Slot at which the oldest open entry was queued. */
  oldest_slot: number | undefined
}
export type ChainAudit = {
  /** Slot the accounts were read at. */
  slot: number
  note_tree: RootAudit
  spent_log: RootAudit
  queue: QueueAudit
  /** Requests that are neither served nor refused, by hex of the nullifier. */
  open_exits: [string, VaultExit][]
  verdict: 'agrees' | 'differs' | 'incomplete'
}

/**
 * Rebuilds everything from events and compares it with the accounts; the venue is not asked. Read `vault` before
 * `events`, so that the history covers the accounts; later events are ignored.
 */
export function auditChain(events: readonly VaultEvent[], vault: VaultState): ChainAudit {
  const note_tree = auditNoteTree(events, vault)
  const spent_log = auditSpentLog(events, vault)
  const queue = auditQueue(events, vault, spent_log.missing === undefined)
  const parts = [note_tree, spent_log, queue]
  const differs = parts.some(({ faults }) => faults.length > 0)
  const incomplete = parts.some(({ missing }) => missing !== undefined)
  const verdict = differs ? 'differs' : incomplete ? 'incomplete' : 'agrees'
  const open_exits = [...exitsOf(events)].filter(([, { stage }]) => stage === 'requested')
  return { slot: vault.slot, note_tree, spent_log, queue, open_exits, verdict }
}

/** The leaves that an event appended and the root after them, as far as the event states it. */
type Append = {
  at: string
  first: number
  leaves: Uint8Array[]
  note_root: Uint8Array | undefined
  misfit: boolean
}

/**
 * Recomputes the commitments of deposits and refunds, whose openings are public; outputs of trades are opaque. Every
 * earlier state in the ring must be one of this history, as must the current root.
 */
function auditNoteTree(events: readonly VaultEvent[], { slot, tree, ring }: VaultState): RootAudit {
  const { leaf_count: count, root: expected } = tree
  const appends = events
    .flatMap(appendOf)
    .sort((a, b) => a.first - b.first || a.leaves.length - b.leaves.length)
  const { leaves, missing, fault } = inOrder(appends, count)
  const judged = { count, expected, missing, found: undefined, slots_left: undefined }
  if (missing !== undefined || fault !== undefined)
    return { ...judged, faults: fault === undefined ? [] : [fault] }
  const rebuilt = new MerkleTree()
  rebuilt.append(leaves)
  const found = rebuilt.root()
  const faults = appends
    .filter(({ misfit }) => misfit)
    .map(({ at }) => `${at} names another note than its leaf`)
  for (const { leaf_count, root } of ring.states)
    if (leaf_count <= count && !equalBytes(rebuilt.root(leaf_count), root))
      faults.push(`the known state of ${leaf_count} leaves in the ring is none of this history`)
  if (!equalBytes(found, expected)) faults.push(firstWrongAppend(appends, rebuilt))
  const [oldest] = ring.states
  const slots_left = oldest && slotsLeft(count, count - oldest.leaf_count, slot - oldest.slot)
  return { ...judged, found, faults, slots_left }
}

function appendOf(event: VaultEvent): Append[] {
  if (event.kind === 'settled') {
    const { batch, first_leaf_index: first, note_root, outputs } = event
    const leaves = outputs.map(({ commitment }) => commitment)
    return [{ at: `settlement batch ${batch}`, first, leaves, note_root, misfit: false }]
  }
  if (event.kind === 'deposited') return [programNote('deposit', event, event, event.note_root)]
  if (event.kind !== 'paid' || event.refund === undefined) return []
  return [programNote('refund', event.refund, event)]
}

function programNote(
  what: string,
  { leaf_index, commitment }: { leaf_index: number; commitment: Uint8Array },
  note: { mint: Uint8Array; amount: bigint; inner: Uint8Array },
  note_root?: Uint8Array,
): Append {
  const at = `the ${what} at leaf ${leaf_index}`
  const misfit = !isCommitmentOf(commitment, { ...note, leaf_index })
  return { at, first: leaf_index, leaves: [commitment], note_root, misfit }
}

function isCommitmentOf(commitment: Uint8Array, note: Parameters<typeof depositCommitment>[0]): boolean {
  try {
    return equalBytes(commitment, depositCommitment(note))
  } catch {
    return false
  }
}

type Ordered = { leaves: Uint8Array[]; missing?: string; fault?: string }

/** The first `count` leaves; each must be appended exactly once. */
function inOrder(appends: readonly Append[], count: number): Ordered {
  const leaves: Uint8Array[] = []
  for (const { at, first, leaves: more } of appends) {
    if (first >= count) break
    if (first > leaves.length) return { leaves, missing: `leaf ${leaves.length}` }
    if (first < leaves.length) return { leaves, fault: `${at} takes a place that another has` }
    leaves.push(...more)
  }
  return leaves.length < count
    ? { leaves, missing: `leaf ${leaves.length}` }
    : { leaves: leaves.slice(0, count) }
}

/** Compares the tree after each event with the root that the event states itself. */
function firstWrongAppend(appends: readonly Append[], rebuilt: MerkleTree): string {
  const wrong = appends.find(({ first, leaves, note_root }) => {
    const end = first + leaves.length
    return note_root && end <= rebuilt.leaf_count && !equalBytes(rebuilt.root(end), note_root)
  })
  return wrong === undefined
    ? 'every event agrees with itself; the account holds another root'
    : `${wrong.at} is the first whose root is not that of its leaves`
}

/** Rebuilds the spent log batch by batch. The program does not see whether an earlier batch spent a nullifier: this does. */
function auditSpentLog(events: readonly VaultEvent[], { slot, config, tree, ring }: VaultState): RootAudit {
  const { last_batch: count, spent_count } = config
  const expected = tree.spent_root
  const settled = settledUpTo(events, count)
  const gap = settled.findIndex(({ batch }, at) => batch !== at + 1)
  const judged = { count, expected, missing: undefined, found: undefined, slots_left: undefined }
  if (gap !== -1 || settled.length < count)
    return { ...judged, faults: [], missing: `settlement batch ${(gap === -1 ? settled.length : gap) + 1}` }
  const { log, ring_batches } = rebuildLog(
    settled.map(({ nullifiers }) => nullifiers),
    ring,
  )
  const found = log.root()
  const spent = settled.reduce((sum, { nullifiers }) => sum + nullifiers.length, 0)
  const faults = spentAgain(settled)
  if (spent !== spent_count || !equalBytes(found, expected)) faults.push(firstDifference(settled, log))
  for (const { leaf_count, spent_root } of ring.states)
    if (!ring_batches.has(toHex(spent_root)))
      faults.push(`the known state of ${leaf_count} leaves in the ring has a spent root of no batch`)
  const [oldest] = ring.states
  const before = oldest && ring_batches.get(toHex(oldest.spent_root))
  const slots_left = before === undefined ? undefined : slotsLeft(count, count - before, slot - oldest!.slot)
  return { ...judged, found, faults, slots_left }
}

const settledUpTo = (events: readonly VaultEvent[], last_batch: number) =>
  eventsOfKind(events, 'settled')
    .filter(({ batch }) => batch <= last_batch)
    .sort((a, b) => a.batch - b.batch)

function spentAgain(settled: readonly EventOf<'settled'>[]): string[] {
  const spent = new Set<string>()
  const faults: string[] = []
  for (const { batch, nullifiers } of settled)
    for (const nullifier of nullifiers.map(toHex))
      if (spent.has(nullifier)) faults.push(`settlement batch ${batch} spends nullifier ${nullifier} again`)
      else spent.add(nullifier)
  return faults
}

/** Compares the log after each batch with the root and count that the batch states itself. */
function firstDifference(settled: readonly EventOf<'settled'>[], log: SpentLog): string {
  let count = 0
  for (const { batch, nullifiers, spent_count, spent_root } of settled) {
    count += nullifiers.length
    if (count !== spent_count || !equalBytes(log.root(batch), spent_root))
      return `settlement batch ${batch} is the first whose spent root is not that of its nullifiers`
  }
  return 'every batch agrees with itself; the account holds another spent root'
}

/**
 * Every payout that a batch queued is in the queue's account as it was queued, or an event closed it.
 * @param whole whether every batch is among the events; without one nothing is judged
 */
function auditQueue(
  events: readonly VaultEvent[],
  { config, queue }: VaultState,
  whole: boolean,
): QueueAudit {
  const queued = new Map(
    settledUpTo(events, config.last_batch).flatMap(({ payouts }) => payouts.map((one) => [one.number, one])),
  )
  const faults: string[] = []
  const open = new Set<number>()
  for (const entry of queue.entries) {
    open.add(entry.number)
    if (!isSamePayout(queued.get(entry.number), entry))
      faults.push(`entry ${entry.number} of the payout queue is not as a batch queued it`)
  }
  const closed = new Set<number>()
  for (const event of eventsOfKind(events, 'paid')) {
    if (event.number >= queue.next_number) continue
    if (closed.has(event.number) || !isSamePayout(queued.get(event.number), event))
      faults.push(`the payment of entry ${event.number} is not of a payout that a batch queued`)
    closed.add(event.number)
  }
  const lost = [...queued.keys()].find((number) => !open.has(number) && !closed.has(number))
  const missing = lost === undefined || !whole ? undefined : `the payment of entry ${lost}`
  const { capacity, entries } = queue
  const oldest_slot = entries.reduce<number | undefined>(
    (oldest, { queued_slot }) => Math.min(oldest ?? queued_slot, queued_slot),
    undefined,
  )
  return { length: entries.length, capacity, oldest_slot, faults: whole ? faults : [], missing }
}

type Terms = { mint: Uint8Array; destination: Uint8Array; inner: Uint8Array; amount: bigint }
const isSamePayout = (queued: Terms | undefined, other: Terms): boolean =>
  queued !== undefined &&
  queued.amount === other.amount &&
  equalBytes(queued.mint, other.mint) &&
  equalBytes(queued.destination, other.destination) &&
  equalBytes(queued.inner, other.inner)

/** Slots until a tree is full; undefined for one that does not grow. */
function slotsLeft(count: number, grown: number, slots: number): number | undefined {
  return grown > 0 && slots > 0 ? Math.floor(((2 ** TREE_DEPTH - count) * slots) / grown) : undefined
}
