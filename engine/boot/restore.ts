/** Restores the hashing worker's trees from the journal, and a lost journal from the chain (settlement.md "Rollback"). */
import { equalBytes } from '../../protocol/bytes'
import type { CommandBody } from '../commands'
import type { Journal } from '../journal/contract'
import { LIMITS } from '../limits'
import { type Past, rowAt, spentBatches } from '../machine/state/past'
import type { State } from '../machine/state/state'
import type { ChainPort, HashPort, SettledBatch, VaultConfig } from '../ports'
import type { Engine } from './assemble'
import { hasOpened, isRestoreAnnounced, isUnused } from './check_chain'

/**
 * Feeds the hashing worker the leaves and batches that its cache lacks. Batches that have not landed are compared too: one
 * may have lost an exit since the cache was written.
 * @throws Error when the worker holds other leaves than the journal
 */
export async function restoreTrees(state: State, past: Past, hash: HashPort): Promise<void> {
  const { leaves } = state
  for (let from = hash.root().leaf_count; from < leaves.size; from += LIMITS.hash_leaves_per_call_max) {
    const count = Math.min(LIMITS.hash_leaves_per_call_max, leaves.size - from)
    const batch = Array.from({ length: count }, (_, at) => rowAt(state, past, 'leaves', from + at).slice())
    await hash.appendLeaves(from, batch)
  }
  const landed = state.settlement.landed?.batch_id ?? 0
  const { restore_batches_per_command_max: step } = LIMITS
  let batches = []
  for (const batch of spentBatches(state, past, 1 + Math.min(landed, hash.spent().batch_count))) {
    if (batches.push(batch) < step) continue
    await hash.restoreSpent(batches)
    batches = []
  }
  if (batches.length > 0) await hash.restoreSpent(batches)
}

/**
 * Whether this boot restores a lost journal from the chain: the admin has announced it there, and this journal contains only
 * boot records, none of them of the epoch that the chain shows: that opening has restored, and the boot goes on. A vault that
 * never had an epoch has nothing to restore. Spent notes come from the vault's events, live notes from their owners' openings,
 * and the book starts empty.
 */
export async function isRestore(
  vault: VaultConfig,
  { journal, state }: { journal: Journal; state: State },
): Promise<boolean> {
  return isRestoreAnnounced(vault) && !hasOpened(state, vault) && (await isUnused(journal))
}

/**
 * Resolves with true once the opening that restored is final: no later start makes one again that a fork took back. With false
 * where the venue stops before.
 */
export async function isRestoreFinal(
  { chain, availability }: Pick<Engine, 'chain' | 'availability'>,
  generation: number,
): Promise<boolean> {
  while (!availability.isStopped()) {
    const final = await chain.readConfig().catch(() => undefined)
    if (final !== undefined && final.generation >= generation) return true
    await Bun.sleep(chain.view().slot_ms)
  }
  return false
}

/** The config of the next epoch: the incremented generation voids every body signed for the old one. */
export function restoredConfig(vault: VaultConfig): VaultConfig {
  return { ...vault, generation: vault.generation + 1 }
}

/** Those behind `last_hashed` that lead to the vault's spent root, now those of the worker; undefined when no provider serves them. */
async function missingBatches(
  chain: Pick<ChainPort, 'readSettled'>,
  hash: HashPort,
  last_hashed: number,
  { last_batch, spent_root }: VaultConfig,
): Promise<SettledBatch[] | undefined> {
  const isWhole = () => hash.spent().batch_count === last_batch && equalBytes(hash.spent().root, spent_root)
  if (last_hashed === last_batch) return isWhole() ? [] : undefined
  for await (const history of chain.readSettled(last_hashed)) {
    const batches = history.filter(({ batch_id }) => batch_id <= last_batch)
    await hash.restoreSpent(batches)
    // Trees that were whole before say nothing about the history that a provider shows.
    if (isWhole() && batches.length === last_batch - last_hashed) return batches
  }
  return undefined
}

/**
 * Reads the settled batches that a journal lacks before its first open epoch, feeds them to the worker, and resolves with
 * the command that journals each part of them, last the payout queue; `incomplete` when the worker's spent log then
 * differs from the vault's. A process that dies on the way does the rest at its next boot.
 * @throws HistoryIncomplete, ChainUnavailable
 */
export async function missingPast(
  { chain, hash, state }: { chain: Pick<ChainPort, 'readSettled'>; hash: HashPort; state: State },
  vault: VaultConfig,
): Promise<CommandBody[] | 'incomplete'> {
  // No batch of this journal was hashed: what the worker has behind the chain is of a lost one.
  if (hash.spent().batch_count > vault.last_batch) await hash.truncateSpent(vault.last_batch)
  if (vault.last_batch === 0) return []
  const batches = await missingBatches(chain, hash, state.settlement.last_hashed, vault)
  if (batches === undefined) return 'incomplete'
  const commands: CommandBody[] = []
  const { restore_batches_per_command_max: step } = LIMITS
  for (let at = 0; at < batches.length; at += step) {
    commands.push({ kind: 'spent_restored', batches: batches.slice(at, at + step) })
  }
  const { next_number: next_payout, entries: payouts } = vault.queue
  return [...commands, { kind: 'queue_restored', next_payout, payouts }]
}
