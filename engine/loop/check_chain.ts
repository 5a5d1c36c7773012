/** Whether the chain and this journal tell one story (settlement.md "Rollback and fork protection"). */
import { equalBytes } from '../../protocol/bytes'
import { type Journal, JournalDamaged } from '../journal/contract'
import type { VaultConfig } from '../ports'
import type { State } from '../state/state'
import type { StopReason } from './availability'

export type ChainFault = Exclude<StopReason, 'journal_failed' | 'restore_incomplete'>

/** Why this journal must not trade on this chain; undefined when it may. */
export async function checkChain(
  config: VaultConfig,
  state: State,
  journal: Journal,
): Promise<ChainFault | undefined> {
  const finalized = state.epochs.filter((epoch) => epoch.slot > 0)
  const newest = Math.max(0, ...finalized.map((epoch) => epoch.epoch))
  if (config.epoch < newest || config.last_batch < (state.settlement.landed?.batch_id ?? 0)) {
    return 'chain_unknown'
  }
  if (config.journal_seq > journal.head().seq || config.last_batch > state.settlement.last_hashed) {
    return 'rolled_back'
  }
  if (config.epoch > 0 && !state.epochs.some((one) => equalBytes(one.boot_nonce, config.boot_nonce))) {
    // An empty journal against a used vault is a lost disk, not a second instance.
    return state.epochs.length === 0 ? 'rolled_back' : 'forked'
  }
  return (await standsIn(journal, config.journal_seq, config.journal_head)) ? undefined : 'forked'
}

/** Whether the journal had exactly this head after record `seq`. */
async function standsIn(journal: Journal, seq: number, head: Uint8Array): Promise<boolean> {
  if (seq === 0) return true
  const own = journal.head()
  if (seq === own.seq) return equalBytes(head, own.head)
  try {
    for await (const _ of journal.readBatches(seq + 1, head)) break
    return true
  } catch (error) {
    if (error instanceof JournalDamaged) return false
    throw error
  }
}
