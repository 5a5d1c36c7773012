/** One node of a cluster: follows the log, notices that no leader lives, takes a term and keeps it (cluster.md "Takeover"). */

import { randomInt } from 'node:crypto'
import type { ChainPoint } from '../../protocol/units'
import type { SignedFrame } from '../journal/contract'
import { LIMITS } from '../limits'
import { Etcd, type EtcdAccess, NoReply } from './etcd'
import type { EntryKey } from './log_entry'
import { type LogThread, logThread } from './log_thread'
import { LogTrim } from './log_trim'
import { Deposed, ReplicatedLog, type Term } from './replicated_log'

class Stopped extends Error {
  override readonly name = 'Stopped'
}

export class ClusterNode {
  /** Names this boot in the log; all nodes have the same settings. */
  private readonly number = randomInt(1, 2 ** 32)
  private readonly log: ReplicatedLog
  private readonly writer: LogThread
  /** Newest sign of life, its term, and the monotonic time since which it is unchanged; a time without answers does not count. */
  private life: { sign: string; term: Term | undefined; since_ms: number } | undefined
  /** Reports to the leader, and the monotonic time of the newest. */
  private reported = { count: 0, at_ms: Number.NEGATIVE_INFINITY }
  private is_resigned = false
  private is_stopped = false

  constructor(
    access: EtcdAccess,
    sealing: EntryKey,
    private readonly monotonicMs: () => number,
  ) {
    this.log = new ReplicatedLog(new Etcd(access), sealing)
    this.writer = logThread(access, sealing)
  }

  /** For `JournalOptions.thread`: what this node appends is written when the log has it. */
  readonly thread = (): Worker => this.writer.thread()

  /**
   * Passes on what the log has behind `end`, until no leader lives and this node has taken the term. Then the rest of the log is
   * passed on, and `take` has had everything that any earlier leader acknowledged.
   * @param take resolves when the entry is on disk
   * @param deposed called at most once, when another node has taken the term
   * @throws LogRolledBack, LogGap, EtcdRejects, Stopped
   */
  async untilLeading(
    end: () => ChainPoint,
    take: (entry: SignedFrame) => Promise<void>,
    deposed: (error: Error) => void,
  ): Promise<Term> {
    for (;;) {
      if (this.is_stopped) throw new Stopped('this node follows no more')
      if (await this.follow(end, take)) continue
      const term = await this.takeTerm(end())
      if (term === undefined) continue
      void this.beat(term, deposed)
      for (;;) {
        const entries = await this.log.read(end())
        if (entries.length === 0) break
        for (const entry of entries) await take(entry)
      }
      this.writer.lead(term)
      void this.trim(term, end)
      return term
    }
  }

  /** Ends the beat, so that another node takes over; `deposed` is called when one has. */
  resign(): void {
    this.is_resigned = true
  }

  /** Ends following and beat. */
  stop(): void {
    this.is_stopped = true
  }

  /** Whether a leader may live. */
  private async follow(end: () => ChainPoint, take: (entry: SignedFrame) => Promise<void>): Promise<boolean> {
    try {
      const { entries, life, term } = await this.log.poll(end())
      for (const entry of entries) await take(entry)
      const now_ms = this.monotonicMs()
      await this.report(end().seq, now_ms)
      if (this.life?.sign !== life) this.life = { sign: life, term, since_ms: now_ms }
      if (entries.length > 0) return true
      if (now_ms - this.life.since_ms >= LIMITS.leader_silence_ms) return false
    } catch (error) {
      if (!(error instanceof NoReply)) throw error
      // Without etcd the leader cannot show that it lives.
      this.life = undefined
    }
    await Bun.sleep(LIMITS.log_poll_ms)
    return true
  }

  /** Undefined when another node was first. */
  private async takeTerm(own: ChainPoint): Promise<Term | undefined> {
    const { life } = this
    this.life = undefined
    try {
      return await this.log.takeTerm(this.number, own, life)
    } catch (error) {
      if (error instanceof Deposed) return undefined
      throw error
    }
  }

  /** Shows the leader what this node no longer needs. @throws NoReply */
  private async report(seq: number, now_ms: number): Promise<void> {
    if (now_ms - this.reported.at_ms < LIMITS.node_report_ms) return
    this.reported = { count: this.reported.count + 1, at_ms: now_ms }
    await this.log.report(this.number, { seq, count: this.reported.count })
  }

  /** Ends with the leadership, which `beat` watches. */
  private async trim(term: Term, end: () => ChainPoint): Promise<void> {
    const trim = new LogTrim(this.log, term, this.monotonicMs)
    while (!this.is_stopped && !this.is_resigned) {
      await Bun.sleep(LIMITS.log_trim_ms)
      try {
        await trim.pass(end().seq)
      } catch (error) {
        if (!(error instanceof NoReply)) return
      }
    }
  }

  private async beat(term: Term, deposed: (error: Error) => void): Promise<void> {
    for (let count = 1; !this.is_stopped; count++) {
      try {
        await this.log.beat(term, this.is_resigned ? undefined : count)
      } catch (error) {
        if (!(error instanceof NoReply)) return deposed(error as Error)
      }
      await Bun.sleep(LIMITS.leader_beat_ms)
    }
  }
}
