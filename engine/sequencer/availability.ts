/** Decides whether the venue accepts commands, and reports the reasons in /system/status. */
import { Refusal, type RefusalCode } from '../../protocol/refusals'
import type { SlotNumber } from '../../protocol/units'
import type { SystemStatus } from '../../protocol/wire/trading'
import type { HaltReason } from '../commands'
import { LIMITS } from '../limits'
import type { ChainPort, Warning } from '../ports'
import { ENGINE_REASONS, reasonText, reasonWord } from './reasons'

/** Why no command is acknowledged for a while, not even a cancel. */
export type Barred = 'lease_lost' | 'commit_reorged' | 'unanchored'

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

/** Trading continues without the read models and with damaged old files. */
type FilesHealth = {
  /** Less space than the reserve is free, or more rows than the memory may hold wait for a snapshot. */
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
  /** Resolves when the node that the term was given to leads, or is late: commands wait for it, to be sent again then. */
  private handed: Promise<void> | undefined
  /** The newest durable halt. */
  private halted: HaltReason | undefined
  /** The journal failed or contradicts the chain: nothing may be acknowledged. */
  private stopped: string | undefined

  constructor(
    /** Submits the commands that arrived before and are not verified yet: they are judged by what was so when they came. */
    private readonly arrived: () => void,
    private readonly chain: ChainPort,
    /** Age of the newest view of the own epoch beyond which another instance may hold the next one. */
    private readonly lease_ms: number,
    private readonly isAnchorOverdue: () => boolean,
    /** Orders wait for the chain after a stall: from which slot on they are accepted, 0 while no slot comes. */
    private readonly reopensSlot: () => SlotNumber | undefined,
    private readonly files: FilesHealth,
    private readonly warnings: () => readonly Warning[] = () => [],
  ) {}

  serve(): void {
    this.serving = true
  }
  drain(): void {
    this.arrived()
    this.draining = true
  }
  /** Commands wait from here on, until the node that the term is given to leads; `undefined` where they no longer do. */
  hand(leads: Promise<void> | undefined): void {
    this.arrived()
    this.handed = leads
  }
  get handing(): Promise<void> | undefined {
    return this.handed
  }
  /** No command is accepted from here on; records on their way to the disk still need the right to be released. */
  release(): void {
    this.arrived()
    this.ended = true
  }
  /** The durable halt of the state; `undefined` without one. */
  halt(reason: HaltReason | undefined): void {
    this.halted = reason
  }
  /** @param details public facts after the reason's sentence */
  stop(reason: StopReason, details: readonly string[] = []): void {
    this.stopped ??= reasonText(reason, ...details)
  }
  isStopped(): boolean {
    return this.stopped !== undefined
  }
  /** Nothing that is rejected now is accepted later. */
  isEnding(): boolean {
    return this.draining || this.isStopped()
  }

  /** Why nothing durable may be released and nothing matched now; a boot, which serves no client, is not barred. */
  barred(): Barred | undefined {
    if (!this.serving) return undefined
    if (this.chain.lease().age_ms > this.lease_ms) return 'lease_lost'
    if (this.chain.health().reasons.includes('commit_reorged')) return 'commit_reorged'
    return this.isAnchorOverdue() ? 'unanchored' : undefined
  }

  /** Refuses while nothing is executed. */
  requireServing(): void {
    if (this.stopped !== undefined) throw new Refusal('matching_unavailable', { subsystem: 'matching' })
    if (!this.serving || this.ended) throw new Refusal(this.draining ? 'draining' : 'lease_lost')
  }

  /** Refuses while no command may be acknowledged, cancels included. */
  requireRunning(): void {
    this.requireServing()
    const barred = this.barred()
    if (barred !== undefined) throw new Refusal(barred)
  }

  isRunning(): boolean {
    return !this.isStopped() && this.serving && !this.ended && this.barred() === undefined
  }

  /** Code with which new orders, withdrawals and reshapes are rejected now; cancels continue (protocol.md "Order of checks"). */
  unavailable(): RefusalCode | undefined {
    if (this.stopped !== undefined || this.halted !== undefined) return 'matching_unavailable'
    if (this.chain.health().settlement === 'unwired') return 'settlement_unavailable'
    if (this.reopensSlot() === 0) return 'reopening'
    if (this.draining) return 'draining'
    return this.files.isFull() ? 'disk_full' : undefined
  }

  status(): Omit<SystemStatus, 'chain' | 'enclave'> {
    const { settlement, reasons, overdue } = this.chain.health()
    const barred = this.barred()
    const reopens_slot = this.reopensSlot()
    const stalled = this.chain.view().lag_ms > LIMITS.chain_lag_max_ms
    const { files } = this
    const own: string[] = []
    if (!this.serving && !this.draining && this.stopped === undefined) own.push(reasonText('opening'))
    if (this.stopped !== undefined) own.push(this.stopped)
    if (this.halted !== undefined) own.push(reasonText(this.halted))
    if (stalled) own.push(reasonText('chain_stalled'))
    if (reopens_slot !== undefined) own.push(reasonText('reopening'))
    if (this.draining) own.push(reasonText('draining'))
    if (files.isFull()) own.push(reasonText('disk_full'))
    if (files.isHistoryBroken()) own.push(reasonText('history_failed'))
    if (files.isHistoryStalled()) own.push(reasonText('history_stalled'))
    for (const file of files.damage()) own.push(`file_damaged: ${file}: ${ENGINE_REASONS.file_damaged}`)
    if (barred !== undefined) own.push(reasonText(barred))
    for (const word of this.warnings()) own.push(reasonText(word))
    const matching = this.matching()
    const ready =
      matching === 'running' &&
      settlement !== 'unwired' &&
      !stalled &&
      !overdue &&
      reopens_slot === undefined &&
      barred === undefined &&
      !files.isFull() &&
      !files.isHistoryBroken() &&
      !this.draining
    const status = { ready, matching, settlement, draining: this.draining, reasons: allReasons(own, reasons) }
    return reopens_slot ? { ...status, reopens_slot } : status
  }

  private matching(): SystemStatus['matching'] {
    if (!this.serving || this.ended || this.stopped !== undefined) return 'stopped'
    if (this.halted === undefined) return 'running'
    return this.halted === 'vault_paused' ? 'paused' : 'stopped'
  }
}

/** A bare word of the chain's loops adds nothing to the engine's sentence about it. */
function allReasons(own: string[], of_chain: readonly string[]): string[] {
  if (own.length === 0 && of_chain.length === 0) return own
  const stated = new Set(own.map(reasonWord))
  return [...new Set([...own, ...of_chain.filter((reason) => !stated.has(reason))])]
}
