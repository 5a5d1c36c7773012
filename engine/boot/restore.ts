/** Restores the hashing worker's trees from the journal, and a lost journal from the chain (settlement.md "Rollback"). */
import { equalBytes } from '../../protocol/bytes'
import type { EngineConfig } from '../config'
import { LIMITS } from '../limits'
import { spentBatches } from '../machine/state/batch'
import type { State } from '../machine/state/state'
import type { ChainPort, HashPort, SettledBatch, VaultConfig } from '../ports'
import type { Sequencer } from '../sequencer/sequencer'

/**
 * Feeds the hashing worker the leaves and batches that its cache lacks. Batches that have not landed are compared too: one
 * may have lost an exit since the cache was written.
 * @throws Error when the worker holds other leaves than the journal
 */
export async function restoreTrees(state: State, hash: HashPort): Promise<void> {
  const { leaves } = state
  for (let from = hash.root().leaf_count; from < leaves.size; from += LIMITS.hash_leaves_per_call_max) {
    const count = Math.min(LIMITS.hash_leaves_per_call_max, leaves.size - from)
    const batch = Array.from({ length: count }, (_, at) => leaves.at(from + at).slice())
    await hash.appendLeaves(from, batch)
  }
  const landed = state.settlement.landed?.batch_id ?? 0
  const missing = [...spentBatches(state, Math.min(landed, hash.spent().batch_count))]
  if (missing.length > 0) await hash.restoreSpent(missing)
}

/**
 * Whether this boot restores a lost journal from the chain: the setting asks for it, the admin has announced it on chain,
 * and this journal never held an open epoch. Spent notes come from the vault's events, live notes from their owners'
 * openings, and the book starts empty.
 */
export function isRestore(config: EngineConfig, vault: VaultConfig, state: State): boolean {
  const announced = vault.pending.some(({ action }) => action === 'authorize_restore')
  return config.restore_from_chain === true && announced && state.epochs.every(({ slot }) => slot === 0)
}

/** The config of the next epoch: the incremented generation voids every body signed for the old one. */
export function restoredConfig(vault: VaultConfig): VaultConfig {
  return { ...vault, generation: vault.generation + 1 }
}

/**
 * Journals the settled batches that this journal lacks, and the payout queue of `vault`.
 * @throws HistoryIncomplete, ChainUnavailable
 */
export async function restoreSpent(
  chain: Pick<ChainPort, 'readSettled'>,
  vault: VaultConfig,
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
  const { next_number: next_payout, entries: payouts } = vault.queue
  await sequencer.submit({ kind: 'queue_restored', next_payout, payouts })
}

/** Whether the worker's spent log, fed from the journal, equals the chain's. */
export function isSpentLogOf(hash: HashPort, vault: VaultConfig): boolean {
  const { batch_count, root } = hash.spent()
  return batch_count === vault.last_batch && equalBytes(root, vault.spent_root)
}
