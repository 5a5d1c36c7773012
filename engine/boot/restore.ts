/** Restores what a journal or a cache lacks: the hashing worker's trees, or the whole state from the chain. */
import { equalBytes } from '../../protocol/bytes'
import type { EngineConfig } from '../config'
import { LIMITS } from '../limits'
import { spentBatches } from '../machine/state/batch'
import type { State } from '../machine/state/state'
import type { ChainPort, HashPort, SettledBatch, VaultConfig } from '../ports'
import type { Sequencer } from '../sequencer/sequencer'

// Brings the hashing worker's trees up to the journal when its cache starts behind.

/** @throws Error when the worker holds other leaves than the journal. */
export async function restoreTrees(state: State, hash: HashPort): Promise<void> {
  const { leaves } = state
  for (let from = hash.root().leaf_count; from < leaves.size; from += LIMITS.hash_leaves_per_call_max) {
    const count = Math.min(LIMITS.hash_leaves_per_call_max, leaves.size - from)
    const batch = Array.from({ length: count }, (_, at) => leaves.at(from + at).slice())
    await hash.appendLeaves(from, batch)
  }
  const missing = [...spentBatches(state, hash.spent().last_batch_id)]
  if (missing.length > 0) await hash.restoreSpent(missing)
}

// A venue whose journal is lost, from the chain alone (settlement.md "Rollback"): what was spent comes from the events of
// the vault, the notes from their owners' openings, and the book is empty. The admin has announced it on chain.

/**
 * Whether this boot restores: it was asked for, the chain has an announcement to consume, and this journal never held an
 * open epoch. With one it is an ordinary boot, whatever the setting says.
 */
export function isRestore(config: EngineConfig, vault: VaultConfig, state: State): boolean {
  const announced = vault.pending.some(({ action }) => action === 'authorize_restore')
  return config.restore_from_chain === true && announced && state.epochs.every(({ slot }) => slot === 0)
}

/** The config as the next epoch will have it: every body signed for the old generation is void. */
export function restoredConfig(vault: VaultConfig): VaultConfig {
  return { ...vault, generation: vault.generation + 1 }
}

/** Journals what the chain has settled and this journal lacks. @throws HistoryIncomplete, ChainUnavailable */
export async function restoreSpent(
  chain: Pick<ChainPort, 'readSettled'>,
  state: State,
  sequencer: Sequencer,
): Promise<void> {
  const batches: SettledBatch[] = await chain.readSettled(state.settlement.last_hashed)
  for (let at = 0; at < batches.length; at += LIMITS.restore_batches_per_command_max) {
    await sequencer.submit({
      kind: 'spent_restored',
      batches: batches.slice(at, at + LIMITS.restore_batches_per_command_max),
    })
  }
}

/** The worker's spent tree, fed from the journal, is the chain's. */
export function isSpentTreeOf(hash: HashPort, vault: VaultConfig): boolean {
  const { spent_count, spent_root, last_batch_id } = hash.spent()
  return (
    spent_count === vault.spent_count &&
    last_batch_id === vault.last_batch &&
    equalBytes(spent_root, vault.spent_root)
  )
}
