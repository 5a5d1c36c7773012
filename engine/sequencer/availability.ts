/** Decides whether the venue accepts commands, and reports the reasons in /system/status. */
import { Refusal, type RefusalCode } from '../../protocol/refusals'
import type { SystemStatus } from '../../protocol/wire/trading'
import type { HaltReason } from '../commands'
import { LIMITS } from '../limits'
import type { ChainPort } from '../ports'

/** Meaning of each reason for readers of the status, with the next step. */
const HALT_TEXT: Record<HaltReason, string> = {
  vault_frozen: 'the vault is frozen: funds leave by escape on chain',
  vault_paused: 'the vault is paused by its admin',
  forked:
    'another instance opened an epoch, or wrote to its journal, that this journal does not know: keep the instance that holds the epoch and stop this one; if its disk is lost, restore from the chain',
  rolled_back:
    'the chain is ahead of this journal: restore a backup whose head matches, or restore from the chain',
  root_mismatch:
    "the note tree on chain, or what was spent, differs from the venue's: restore from the chain if it stays so",
  program_error: 'the vault program rejected a settlement batch: inspect it before restarting',
}

/** Why no command is acknowledged for a while, not even a cancel. */
export type Barred = 'lease_lost' | 'commit_reorged' | 'unanchored'
const BARRED_TEXT: Record<Barred, string> = {
  lease_lost: 'the chain has not shown lately that this instance holds the epoch: look at its RPC providers',
  commit_reorged: 'the chain rolled a decided commit back: it is sent until it is confirmed again',
  unanchored: 'the journal position on chain is too old: look at the fee payer and the RPC providers',
}

/** Why this instance acknowledges no command until it is restarted, not even a cancel. */
export type StopReason =
  | 'forked'
  | 'rolled_back'
  | 'chain_unknown'
  | 'tail_unsigned'
  | 'restore_incomplete'
  | 'self_check'
  | 'journal_failed'
  | 'exits_disproved'
const STOP_TEXT: Record<StopReason, string> = {
  forked: HALT_TEXT.forked,
  rolled_back: HALT_TEXT.rolled_back,
  chain_unknown: 'the chain does not know what this journal finalized: it is another chain or was reset',
  tail_unsigned:
    'records behind the position on chain are not signed by the instance that holds the epoch: put back the newest disk that this venue wrote, or restore from the chain',
  restore_incomplete:
    "the chain's events do not give its spent root: restore into an empty folder, from an RPC that keeps the whole history",
  self_check: 'clients reject this machine, so it opens no epoch',
  journal_failed: 'the journal failed: the process exits',
  exits_disproved:
    'batches held exits that were never requested: the process exits, to start again without them',
}

const DISK_FULL_TEXT = `disk_full: less than ${LIMITS.disk_reserve_bytes / 2 ** 20} MiB is free on the data volume: free some or make it larger; cancels and withdrawals go on`

const HISTORY_STALLED_TEXT =
  'history_stalled: the disk takes no writes of the read models, which are repeated: look at its space and errors'
const DAMAGE_TEXT =
  'trading goes on, and a start that needs the file fails: keep this process running and put the file back from a backup'

/** Trading continues without the read models and with damaged old files. */
type FilesHealth = {
  /** Less space than the reserve is free. */
  isFull(): boolean
  isHistoryBroken(): boolean
  isHistoryStalled(): boolean
  /** Names of files that are not as written. */
  damage(): string[]
}

export class Availability {
  /** The epoch is open and commands are accepted. */
  private serving = false
  private draining = false
  /** The lease goes to the next instance. */
  private ended = false
  /** The newest durable halt. */
  private halted: HaltReason | undefined
  /** The journal failed or contradicts the chain: nothing may be acknowledged. */
  private stopped: string | undefined

  constructor(
    private readonly chain: ChainPort,
    /** Age of the newest view of the own epoch beyond which another instance may hold the next one. */
    private readonly lease_ms: number,
    private readonly isAnchorOverdue: () => boolean,
    /** No slot has come for too long. */
    private readonly isLate: () => boolean,
    private readonly files: FilesHealth,
  ) {}

  serve(): void {
    this.serving = true
  }
  drain(): void {
    this.draining = true
  }
  /** No command is accepted from here on; what is on its way to the disk still needs the right to be released. */
  release(): void {
    this.ended = true
  }
  /** The durable halt of the state; `undefined` without one. */
  halt(reason: HaltReason | undefined): void {
    this.halted = reason
  }
  /** @param details public facts beside the reason's sentence */
  stop(reason: StopReason, details: readonly string[] = []): void {
    this.stopped ??= [reason, STOP_TEXT[reason], ...details].join(': ')
  }
  isStopped(): boolean {
    return this.stopped !== undefined
  }
  isDraining(): boolean {
    return this.draining
  }

  /** Why nothing durable may be released and nothing matched now; a boot, which serves nobody, is not barred. */
  barred(): Barred | undefined {
    if (!this.serving) return undefined
    if (this.chain.lease().age_ms > this.lease_ms) return 'lease_lost'
    if (this.chain.health().reasons.includes('commit_reorged')) return 'commit_reorged'
    return this.isAnchorOverdue() ? 'unanchored' : undefined
  }

  /** Refuses while no command may be acknowledged, cancels included. */
  requireRunning(): void {
    if (this.stopped !== undefined) throw new Refusal('matching_unavailable', { subsystem: 'matching' })
    if (!this.serving || this.ended) throw new Refusal(this.draining ? 'draining' : 'lease_lost')
    const barred = this.barred()
    if (barred !== undefined) throw new Refusal(barred)
  }

  /** Code with which new orders, withdrawals and reshapes are refused now; cancels continue (protocol.md "Order of checks"). */
  unavailable(): RefusalCode | undefined {
    if (this.stopped !== undefined || this.halted !== undefined) return 'matching_unavailable'
    if (this.chain.health().settlement === 'unwired') return 'settlement_unavailable'
    if (this.isLate()) return 'reopening'
    if (this.draining) return 'draining'
    return this.files.isFull() ? 'disk_full' : undefined
  }

  status(): Pick<SystemStatus, 'ready' | 'matching' | 'settlement' | 'draining' | 'reasons'> {
    const { settlement, reasons, overdue } = this.chain.health()
    const barred = this.barred()
    const stalled = this.chain.view().lag_ms > LIMITS.chain_lag_max_ms
    const { files } = this
    const all = [
      ...(this.serving || this.draining || this.stopped !== undefined ? [] : ['the epoch is not open yet']),
      ...(this.stopped === undefined ? [] : [this.stopped]),
      ...(this.halted === undefined ? [] : [HALT_TEXT[this.halted]]),
      ...(stalled ? ['the chain view does not advance; nothing expires meanwhile'] : []),
      ...(this.draining ? ['draining for a restart'] : []),
      ...(files.isFull() ? [DISK_FULL_TEXT] : []),
      ...(files.isHistoryBroken()
        ? ['the read models failed: restart to rebuild them from the journal']
        : []),
      ...(files.isHistoryStalled() ? [HISTORY_STALLED_TEXT] : []),
      ...files.damage().map((file) => `file_damaged: ${file}: ${DAMAGE_TEXT}`),
      ...(barred === undefined ? [] : [`${barred}: ${BARRED_TEXT[barred]}`]),
      ...reasons,
    ]
    const matching = this.matching()
    const ready =
      matching === 'running' &&
      settlement !== 'unwired' &&
      !stalled &&
      !overdue &&
      barred === undefined &&
      !files.isFull() &&
      !files.isHistoryBroken() &&
      !this.draining
    return { ready, matching, settlement, draining: this.draining, reasons: [...new Set(all)] }
  }

  private matching(): SystemStatus['matching'] {
    if (!this.serving || this.ended || this.stopped !== undefined) return 'stopped'
    if (this.halted === undefined) return 'running'
    return this.halted === 'vault_paused' ? 'paused' : 'stopped'
  }
}
