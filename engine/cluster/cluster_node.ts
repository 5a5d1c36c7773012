/** One node of a cluster: follows the log, notices that no leader lives, takes a term and keeps it (cluster.md "Takeover"). */
import { randomInt } from 'node:crypto'
import type { ChainPoint } from '../../protocol/units'
import type { SignedFrame } from '../journal/contract'
import { LIMITS } from '../limits'
import { Etcd, type EtcdAccess, NoReply } from './etcd'
import type { EntryKey } from './log_entry'
import { Deposed, type NodeReport, ReplicatedLog, type Term } from './replicated_log'

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
  /** Newest end of the log that a member showed, and the monotonic time at which it was asked for. */
  private shown = { seq: 0, at_ms: Number.NEGATIVE_INFINITY, leader_url: '' }
  /** Monotonic time until which no other node can have answered a revocation, and since when this one has the term. */
  private right_until_ms = Number.NEGATIVE_INFINITY
  private led_since_ms = Number.POSITIVE_INFINITY
  /** Monotonic time from which the lease of the epoch before is over. */
  private free_ms = Number.NEGATIVE_INFINITY
  /** Monotonic time by which this node serves, or another one may lead. */
  private opening_until_ms = Number.POSITIVE_INFINITY
  /** This node's term: taken, or given by the leader before. */
  private term: Term | undefined
  private wake: (() => void) | undefined
  private is_resigned = false
  private is_leaving = false
  private is_stopped = false

  constructor(
    access: EtcdAccess,
    sealing: EntryKey,
    /** Where this node answers links. */
    private readonly url: string,
    private readonly monotonicMs: () => number,
    /** Newest version of rules and formats that this build carries. */
    private readonly newest: number,
  ) {
    this.log = new ReplicatedLog(new Etcd(access), sealing)
    this.writer = logThread(access, sealing)
  }

  /** For `JournalOptions.thread`: an append of this node counts as written when the log has it. */
  readonly thread = (): Worker => this.writer.thread()

  /**
   * Passes on the entries of the log behind `end` until the leader gives this node its term, or until no leader lives and this
   * node takes one. Then the rest of the log is passed on, so `take` has had every record that an earlier leader acknowledged.
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
      const term = this.term ?? (await this.takeTerm(end()))
      // A node that left meanwhile opens nothing, and shows no life under its term.
      if (term === undefined || this.is_leaving) continue
      this.term = term
      this.led_since_ms = this.monotonicMs()
      void this.beat(term, deposed)
      for (;;) {
        const entries = await this.log.read(end())
        if (entries.length === 0) break
        for (const entry of entries) await take(entry)
      }
      this.opening_until_ms = this.monotonicMs() + LIMITS.term_opening_ms
      this.writer.lead(term)
      void this.trim(term, end)
      return term
    }
  }

  /** Number of records beyond `seq` at the last read of the log, and the age of that read: infinite without one. */
  lag(seq: number): { records: number; age_ms: number } {
    return { records: Math.max(0, this.shown.seq - seq), age_ms: this.monotonicMs() - this.shown.at_ms }
  }

  /**
   * How long this node may answer reads of accounts, and let others answer: until `right_ms` after it had the term. A node that
   * is cut off may not.
   */
  rightMs(): number {
    return Math.max(0, this.right_until_ms - this.monotonicMs())
  }

  /** Reads the log at once: it has more. */
  hint(): void {
    this.wake?.()
  }

  /**
   * Resolves once the leader before, which may not know a revocation of this one, no longer answers reads of accounts: its
   * right is over by etcd, and by the chain, where etcd lies to it.
   */
  async alone(): Promise<void> {
    const until_ms = Math.max(this.free_ms, this.led_since_ms + LIMITS.right_wait * LIMITS.right_ms)
    const left_ms = until_ms - this.monotonicMs()
    if (left_ms > 0) await Bun.sleep(left_ms)
  }

  /** Whether every other live node carries `version`: each of them reports within the wait. False if that is not shown. */
  async isCarried(version: number): Promise<boolean> {
    const live = await this.liveNodes()
    return live?.every(([, { newest }]) => newest >= version) ?? false
  }

  /** The other nodes that reported within LIMITS.node_live_ms, which this call takes; undefined if not all are known. */
  private async liveNodes(): Promise<[node: number, report: NodeReport][] | undefined> {
    try {
      const before = await this.log.reports()
      await Bun.sleep(LIMITS.node_live_ms)
      const now = await this.log.reports()
      if (now.size >= LIMITS.log_nodes_max) return undefined
      return [...now].filter(([node, { count }]) => node !== this.number && before.get(node)?.count !== count)
    } catch (error) {
      if (error instanceof NoReply) return undefined
      throw error
    }
  }

  /** Empty while none is shown. */
  get leader_url(): string {
    return this.shown.leader_url
  }

  /**
   * This node serves. A node that does not within LIMITS.term_opening_ms shows no life, because its chain providers may hang.
   * @param free_ms monotonic time from which the lease of the epoch before is over
   */
  served(free_ms: number): void {
    this.opening_until_ms = Number.POSITIVE_INFINITY
    this.free_ms = free_ms
  }

  /** Ends the beat, so that another node takes over; `deposed` is called when one has. */
  resign(): void {
    this.is_resigned = true
  }

  /**
   * A node that follows, has nearly the whole journal up to `seq`, and carries `version`; undefined without one. Takes
   * LIMITS.node_live_ms, and up to LIMITS.successor_looks times as long: on a busy machine reports are late.
   */
  async successor(seq: () => number, version: number): Promise<number | undefined> {
    for (let looks = 0; looks < LIMITS.successor_looks && !this.is_resigned; looks++) {
      const able = ((await this.liveNodes()) ?? []).filter(([, { newest }]) => newest >= version)
      const [best] = able.toSorted(([, one], [, other]) => other.seq - one.seq)
      if (best !== undefined && best[1].seq >= seq() - LIMITS.handover_records_max) return best[0]
    }
    return undefined
  }

  /** Gives the term to another node: from here on this one shows no life and appends nothing. @throws Deposed */
  async handTo(node: number): Promise<void> {
    this.is_stopped = true
    await this.log.handTerm(this.term!, node)
  }

  /** From here on this node takes no term and shows no report, so that it is given none. False where it has one. */
  leave(): boolean {
    this.is_leaving = this.term === undefined
    return this.is_leaving
  }

  /** Ends following and beat. */
  stop(): void {
    this.is_stopped = true
  }

  /** Whether another node may lead. */
  private async follow(end: () => ChainPoint, take: (entry: SignedFrame) => Promise<void>): Promise<boolean> {
    try {
      const at_ms = this.monotonicMs()
      const { entries, head, life, term, leader_url } = await this.log.poll(end())
      this.shown = { seq: head.seq, at_ms, leader_url }
      for (const entry of entries) await take(entry)
      const now_ms = this.monotonicMs()
      await this.report(end().seq, now_ms)
      // The number is of this boot, and the comparisons of beat and appends find a term that has passed.
      if (term?.node === this.number && !this.is_leaving) {
        this.term = term
        return false
      }
      if (this.life?.sign !== life) this.life = { sign: life, term, since_ms: now_ms }
      if (entries.length > 0) return true
      if (now_ms - this.life.since_ms >= LIMITS.leader_silence_ms && !this.is_leaving) return false
    } catch (error) {
      if (!(error instanceof NoReply)) throw error
      // Without etcd the leader cannot show that it lives.
      this.life = undefined
    }
    await Promise.race([
      Bun.sleep(LIMITS.log_poll_ms),
      new Promise<void>((resolve) => {
        this.wake = resolve
      }),
    ])
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

  /** Reports to the leader which entries this node no longer needs. @throws NoReply */
  private async report(seq: number, now_ms: number): Promise<void> {
    if (this.is_leaving || now_ms - this.reported.at_ms < LIMITS.node_report_ms) return
    this.reported = { count: this.reported.count + 1, at_ms: now_ms }
    await this.log.report(this.number, { seq, count: this.reported.count, newest: this.newest })
  }

  /** Ends with the leadership, which `beat` watches. */
  private async trim(term: Term, end: () => ChainPoint): Promise<void> {
    const trim = new LogTrim(this.log, term, this.monotonicMs, this.newest)
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
      const sent_ms = this.monotonicMs()
      try {
        const shows_life = !this.is_resigned && sent_ms < this.opening_until_ms
        await this.log.beat(term, shows_life ? count : undefined, this.url)
        this.right_until_ms = sent_ms + LIMITS.right_ms
      } catch (error) {
        // A node that has handed its term over ends by itself.
        if (this.is_stopped) return
        if (!(error instanceof NoReply)) return deposed(error as Error)
      }
      await Bun.sleep(LIMITS.leader_beat_ms)
    }
  }
}

/** Messages that are not part of the journal. */
export type LogOrder = { op: 'log'; access: EtcdAccess; sealing: EntryKey } | { op: 'lead'; term: Term }

export type LogThread = {
  /** For `JournalOptions.thread`. */
  thread: () => Worker
  /** Appends from now on are made under this term; before the first one every append fails. */
  lead(term: Term): void
}

/** Starts the journal's thread of a node and passes it the term that its appends need. */
export function logThread(access: EtcdAccess, sealing: EntryKey): LogThread {
  let worker: Worker | undefined
  const order = (one: LogOrder) => worker?.postMessage(one)
  return {
    thread() {
      worker = new Worker(new URL('./log_worker.ts', import.meta.url))
      order({ op: 'log', access, sealing })
      return worker
    },
    lead: (term) => order({ op: 'lead', term }),
  }
}

/** Removes entries from the log that every live node has on its disk (cluster.md "Log"). */
export class LogTrim {
  /** Newest report of each node, and since when it is unchanged. */
  private seen = new Map<number, NodeReport & { since_ms: number }>()
  private bytes = 0
  private passes = 0

  constructor(
    private readonly log: ReplicatedLog,
    private readonly term: Term,
    private readonly monotonicMs: () => number,
    private readonly newest: number,
  ) {}

  /**
   * One pass of the leader, whose journal is durable up to `own_seq`. A small log keeps all entries, for nodes that start late.
   * Entries of a node that reported lately stay, so that it finds them after a restart; the leader reports, too, for the next
   * one. Without another node nothing is removed until the log is full, as only one disk would have it.
   * @throws NoReply, Deposed, EtcdRejects
   */
  async pass(own_seq: number): Promise<void> {
    const now_ms = this.monotonicMs()
    const is_full = this.bytes > LIMITS.log_bytes_max
    const silence_ms = is_full ? LIMITS.node_silence_full_ms : LIMITS.node_silence_ms
    await this.log.report(this.term.node, { seq: own_seq, count: ++this.passes, newest: this.newest })
    const reports = await this.log.reports()
    const gone: number[] = []
    const live = new Map<number, NodeReport & { since_ms: number }>()
    for (const [node, report] of reports) {
      if (node === this.term.node) continue
      const before = this.seen.get(node)
      const since_ms = before?.count === report.count && before.seq === report.seq ? before.since_ms : now_ms
      if (now_ms - since_ms < silence_ms) live.set(node, { ...report, since_ms })
      else gone.push(node)
    }
    this.seen = live
    const seqs = [...live.values()].map(({ seq }) => seq)
    // Reports of nodes with higher numbers are not read then.
    const is_partial = reports.size >= LIMITS.log_nodes_max
    const is_kept = this.bytes < LIMITS.log_kept_bytes || ((live.size === 0 || is_partial) && !is_full)
    const held = is_kept ? 0 : Math.min(own_seq, ...seqs)
    this.bytes = await this.log.removeBefore(this.term, held + 1, gone)
  }
}
