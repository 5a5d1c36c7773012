/** Lists the words with which the engine's own reasons in /system/status begin, each with its meaning and the next step. */
import { LIMITS } from '../limits'

/**
 * Reasons that the engine itself gives. Words are never renamed: operators alert on them, and docs/operations.md has a
 * runbook for each.
 */
export const ENGINE_REASONS = {
  opening: 'the epoch is not open yet',
  following: 'another node of the cluster leads, and this one is ready to take over',
  log_unread: 'no majority of etcd answers: look at its members and at TACIT_ETCD_*',
  vault_frozen: 'the vault is frozen: funds leave by escape on chain',
  vault_paused: 'the vault is paused by its admin',
  forked:
    'another instance opened an epoch, or wrote to its journal, that this journal does not know: keep the instance that holds the epoch and stop this one; if its disk is lost, restore from the chain',
  rolled_back:
    'the chain is ahead of this journal: restore a backup whose head matches, or restore from the chain',
  root_mismatch:
    "the note tree on chain, or what was spent, differs from the venue's: restore from the chain if it stays so",
  program_error: 'the vault program rejected a settlement batch: inspect it before restarting',
  chain_unknown: 'the chain does not know what this journal finalized: it is another chain or was reset',
  tail_unsigned:
    'records behind the position on chain are not signed by the instance that holds the epoch: put back the newest disk that this venue wrote, or restore from the chain',
  restore_incomplete:
    "the chain's events do not give its spent root: start again on this folder, with an RPC that keeps the whole history",
  self_check: 'clients reject this machine, so it opens no epoch',
  journal_failed: 'the journal failed: the process exits',
  exits_disproved:
    'batches held exits that were never requested: the process exits, to start again without them',
  chain_stalled: 'the chain view does not advance; nothing expires meanwhile',
  reopening: 'the chain stalled; cancels continue',
  draining: 'the venue finishes its batches for a restart',
  disk_full: `less than ${LIMITS.disk_reserve_bytes / 2 ** 20} MiB is free on the data volume, or the disk took no snapshot for so long that ${LIMITS.rows_waiting_max} rows wait in memory: free some, make it larger, or replace it; cancels and withdrawals go on`,
  history_failed: 'the read models failed: restart to rebuild them from the journal',
  history_stalled:
    'the disk takes no writes of the read models, which are repeated: look at its space and errors',
  file_damaged:
    'trading goes on, and a start that needs the file fails: keep this process running and put the file back from a backup',
  lease_lost: 'the chain has not shown lately that this instance holds the epoch: look at its RPC providers',
  commit_reorged: 'the chain rolled a decided commit back: it is sent until it is confirmed again',
  collateral_ends:
    "Intel's collateral on the disk ends within 7 days and could not be renewed: a start after its end waits for Intel's service",
  unanchored: 'the journal position on chain is too old: look at the fee payer and the RPC providers',
} as const
type EngineReason = keyof typeof ENGINE_REASONS

/** The word that a reason begins with. */
export const reasonWord = (reason: string): string => reason.split(':', 1)[0]!

/** The reason in the form `WORD: DETAIL: …`. @param details public facts after the sentence */
export const reasonText = (word: EngineReason, ...details: readonly string[]): string =>
  [word, ENGINE_REASONS[word], ...details].join(': ')
