/** Recomputes both roots of a vault from its public events alone and compares them with its accounts. */
import { equalBytes, toHex } from '../../protocol/bytes'
import { MerkleTree } from '../../protocol/notes/merkle_tree'
import { depositCommitment } from '../../protocol/notes/notes'
import { SpentTree } from '../../protocol/notes/spent_tree'
import type { SettledEvent, VaultEvent } from '../../protocol/vault/events'
import type { VaultState } from '../chain/read_vault'

export type RootAudit = {
  /** Leaves or nullifiers the account counts. */
  count: number
  /** Root the account holds. */
  expected: Uint8Array
  /** Root of the rebuilt tree; undefined when it could not be rebuilt. */
  found: Uint8Array | undefined
  /** Contradictions with the account or within the history, one sentence each. */
  faults: string[]
  /** The first gap of the history; with a gap nothing is judged. */
  missing: string | undefined
}
export type ChainAudit = {
  /** Slot the accounts were read at. */
  slot: number
  note_tree: RootAudit
  spent_tree: RootAudit
  verdict: 'agrees' | 'differs' | 'incomplete'
}

/**
 * Rebuilds both trees from events and compares them with the accounts; the venue is not asked. Read `vault` before
 * `events`, so that the history covers the accounts; later events are ignored.
 */
export function auditChain(events: readonly VaultEvent[], vault: VaultState): ChainAudit {
  const note_tree = auditNoteTree(events, vault)
  const spent_tree = auditSpentTree(events, vault)
  const both = [note_tree, spent_tree]
  const differs = both.some(({ faults }) => faults.length > 0)
  const incomplete = both.some(({ missing }) => missing !== undefined)
  const verdict = differs ? 'differs' : incomplete ? 'incomplete' : 'agrees'
  return { slot: vault.slot, note_tree, spent_tree, verdict }
}

/** The leaves that an event appended and the root after them, both as the event states them. */
type Append = { at: string; first: number; leaves: Uint8Array[]; note_root: Uint8Array; misfit: boolean }
type ProgramNote = { mint: Uint8Array; amount: bigint; inner: Uint8Array; leaf_index: number }

/**
 * Recomputes the commitments of deposits and refunds, whose openings are public; outputs of trades are opaque. Every
 * earlier state in the ring must be one of this history, as must the current root.
 */
function auditNoteTree(events: readonly VaultEvent[], { tree, ring }: VaultState): RootAudit {
  const { leaf_count: count, root: expected } = tree
  const appends = events
    .flatMap(appendOf)
    .sort((a, b) => a.first - b.first || a.leaves.length - b.leaves.length)
  const { leaves, missing, fault } = inOrder(appends, count)
  if (missing !== undefined || fault !== undefined)
    return { count, expected, found: undefined, faults: fault === undefined ? [] : [fault], missing }
  const rebuilt = new MerkleTree()
  const faults = appends
    .filter(({ misfit }) => misfit)
    .map(({ at }) => `${at} names another note than its leaf`)
  const states = ring.states.filter((state) => state.leaf_count <= count)
  states.sort((a, b) => a.leaf_count - b.leaf_count)
  for (const { leaf_count, root } of states) {
    rebuilt.append(leaves.slice(rebuilt.leaf_count, leaf_count))
    if (!equalBytes(rebuilt.root(), root))
      faults.push(`the known state of ${leaf_count} leaves in the ring is none of this history`)
  }
  rebuilt.append(leaves.slice(rebuilt.leaf_count))
  const found = rebuilt.root()
  if (!equalBytes(found, expected)) faults.push(firstWrongAppend(appends, count))
  return { count, expected, found, faults, missing: undefined }
}

function appendOf(event: VaultEvent): Append[] {
  if (event.kind === 'deposited') {
    const { leaf_index: first, commitment, note_root } = event
    const misfit = !isCommitmentOf(commitment, event)
    return [{ at: `the deposit at leaf ${first}`, first, leaves: [commitment], note_root, misfit }]
  }
  if (event.kind !== 'settled') return []
  const { batch, first_leaf_index: first, note_root, outputs, payouts } = event
  const refunds = payouts.flatMap(({ refund, mint, amount, inner }) =>
    refund === undefined ? [] : [{ ...refund, mint, amount, inner }],
  )
  const leaves = [...outputs, ...refunds].map(({ commitment }) => commitment)
  const misfit = refunds.some(
    (note, at) => note.leaf_index !== first + outputs.length + at || !isCommitmentOf(note.commitment, note),
  )
  return [{ at: `settlement batch ${batch}`, first, leaves, note_root, misfit }]
}

function isCommitmentOf(commitment: Uint8Array, note: ProgramNote): boolean {
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
    if (leaves.length >= count) break
    if (first > leaves.length) return { leaves, missing: `leaf ${leaves.length}` }
    if (first < leaves.length) return { leaves, fault: `${at} takes a place that another has` }
    leaves.push(...more)
  }
  return leaves.length < count
    ? { leaves, missing: `leaf ${leaves.length}` }
    : { leaves: leaves.slice(0, count) }
}

/** Replays the history and compares each event with the root that it states itself. */
function firstWrongAppend(appends: readonly Append[], count: number): string {
  const tree = new MerkleTree()
  for (const { at, first, leaves, note_root } of appends) {
    if (first >= count) break
    tree.append(leaves)
    if (!equalBytes(tree.root(), note_root)) return `${at} is the first whose root is not that of its leaves`
  }
  return 'every event agrees with itself; the account holds another root'
}

/** Rebuilds the spent tree batch by batch. A nullifier that escaped from a frozen vault must be in no batch. */
function auditSpentTree(events: readonly VaultEvent[], { config }: VaultState): RootAudit {
  const { last_batch, spent_count: count, spent_root: expected } = config
  const batches = events.filter((event) => event.kind === 'settled').sort((a, b) => a.batch - b.batch)
  const settled = batches.filter(({ batch }) => batch <= last_batch)
  const gap = settled.findIndex(({ batch }, at) => batch !== at + 1)
  if (gap !== -1 || settled.length < last_batch) {
    const missing = `settlement batch ${(gap === -1 ? settled.length : gap) + 1}`
    return { count, expected, found: undefined, faults: [], missing }
  }
  const faults: string[] = []
  const tree = new SpentTree()
  try {
    tree.insertBatches(settled.map(({ nullifiers }) => nullifiers))
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    return { count, expected, found: undefined, faults: [firstDifference(settled)], missing: undefined }
  }
  const found = tree.root()
  if (tree.spent_count !== count || !equalBytes(found, expected)) faults.push(firstDifference(settled))
  for (const event of events)
    if (event.kind === 'escaped' && tree.has(event.nullifier))
      faults.push(`nullifier ${toHex(event.nullifier)} was settled and escaped too`)
  return { count, expected, found, faults, missing: undefined }
}

/** Replays the batches and compares each with the root and count that it states itself. */
function firstDifference(settled: readonly SettledEvent[]): string {
  const tree = new SpentTree()
  for (const { batch, nullifiers, spent_count, spent_root } of settled) {
    try {
      tree.insert(nullifiers)
    } catch (error) {
      if (!(error instanceof RangeError)) throw error
      return `settlement batch ${batch}: ${error.message}`
    }
    if (tree.spent_count !== spent_count || !equalBytes(tree.root(), spent_root))
      return `settlement batch ${batch} is the first whose spent root is not that of its nullifiers`
  }
  return 'every batch agrees with itself; the account holds another spent root'
}
