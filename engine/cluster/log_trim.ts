/** Removes from the log what every live node has on its disk (cluster.md "Log"). */

import { LIMITS } from '../limits'
import type { NodeReport, ReplicatedLog, Term } from './replicated_log'

export class LogTrim {
  /** Newest report of each node, and since when it is unchanged. */
  private seen = new Map<number, NodeReport & { since_ms: number }>()
  private bytes = 0
  private passes = 0

  constructor(
    private readonly log: ReplicatedLog,
    private readonly term: Term,
    private readonly monotonicMs: () => number,
  ) {}

  /**
   * One pass of the leader, whose journal is durable up to `own_seq`. A node that reported lately keeps its entries, so that it
   * finds them after a restart; the leader reports, too, for the one that follows it. Without another node nothing is removed,
   * as one disk only would have it, until the log is full.
   * @throws NoReply, Deposed, EtcdRejects
   */
  async pass(own_seq: number): Promise<void> {
    const now_ms = this.monotonicMs()
    const is_full = this.bytes > LIMITS.log_bytes_max
    const silence_ms = is_full ? LIMITS.node_silence_full_ms : LIMITS.node_silence_ms
    await this.log.report(this.term.node, { seq: own_seq, count: ++this.passes })
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
    const held = live.size === 0 && !is_full ? 0 : Math.min(own_seq, ...seqs)
    this.bytes = await this.log.removeBefore(this.term, held + 1, gone)
  }
}
