/** Recomputes both roots of a vault from its public events alone and judges the accounts by them. */
import type { VaultEvent } from '../../protocol/vault/events'
import type { VaultState } from '../chain/read_vault'
import { auditNoteTree } from './note_tree_audit'
import { auditSpentTree } from './spent_tree_audit'

export type RootAudit = {
  /** Leaves or nullifiers the account counts. */
  count: number
  /** Root the account holds. */
  expected: Uint8Array
  /** Root of the rebuilt tree; undefined when it could not be rebuilt. */
  found: Uint8Array | undefined
  /** What contradicts the account or itself, as sentences; empty when nothing does. */
  faults: string[]
  /** What the history lacks; then nothing is judged. */
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
 * Nothing of the venue is asked. `vault` must be read before `events`, so that the history reaches at least as far; what it
 * holds beyond the accounts is left out.
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
