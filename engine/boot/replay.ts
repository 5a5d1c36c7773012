/** Replays journal records: rebuilds the state and feeds the read models the events they lack. */
import type { ChainPoint } from '../../protocol/units'
import type { Command } from '../commands'
import type { JournalRecord } from '../journal/contract'
import { LIMITS } from '../limits'
import { PublicFacts } from '../reads/public_facts'
import { type ReadParts, showDurable } from '../sequencer/durable_effects'
import { Replayer } from '../sequencer/replayer'
import type { Loaded } from './load_state'

type Parts = Pick<Loaded, 'journal' | 'history' | 'facts' | 'state' | 'stores'>

/** Executes records in order; events that the read models already have are not built. */
export class Replay {
  private readonly replayer: Replayer

  /** @param views of a node that others read: what is replayed is shown there */
  constructor(
    private readonly parts: Parts,
    private readonly views?: ReadParts,
  ) {
    const { history, facts, state, stores } = parts
    const history_seq = history.watermark()
    const facts_seq = facts.watermark()
    const wanted = (seq: number, command: Command) =>
      seq > history_seq || (seq > facts_seq && PublicFacts.wantsEvents(command.kind))
    this.replayer = new Replayer(state, stores, wanted)
  }

  /** The records of whole groups, which end at `end`. @throws ReplayDisagrees */
  async take(records: readonly JournalRecord[], end: ChainPoint): Promise<void> {
    const { history, facts, state } = this.parts
    for (const record of records) {
      const { seq } = record
      const replayed = this.replayer.apply(record)
      if (replayed === undefined) history.record(seq, [])
      else {
        const { command, events } = replayed
        showDurable(this.views ?? { history, facts, state }, { seq, command, events })
      }
    }
    history.seal(end)
    facts.seal(end)
    if (history.backlog() > LIMITS.history_lag_replay_events_max) await history.flush()
  }

  /** @throws ReplayDisagrees when the result of an auction is missing */
  end(): void {
    this.replayer.end(this.parts.journal.head().seq)
  }
}

/**
 * Executes every record after `from`; the chain must pass `passing`.
 * @throws ReplayDisagrees, JournalDamaged
 */
export async function replay(
  parts: Parts,
  from: ChainPoint | undefined,
  passing: readonly ChainPoint[],
  views?: ReadParts,
): Promise<void> {
  const one = new Replay(parts, views)
  const batches = parts.journal.readBatches((from?.seq ?? 0) + 1, from?.head, passing)
  for await (const { records, end } of batches) await one.take(records, end)
  one.end()
}
