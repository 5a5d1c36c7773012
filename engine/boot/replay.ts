/** Replays the journal at boot: rebuilds the state and feeds the read models the events they lack. */
import type { ChainPoint } from '../../protocol/units'
import type { Command } from '../commands'
import type { History } from '../history/contract'
import { withTexts } from '../history/event_text'
import type { Journal, JournalRecord } from '../journal/contract'
import { LIMITS } from '../limits'
import type { State } from '../machine/state/state'
import { PublicFacts } from '../reads/public_facts'
import { Replayer } from '../sequencer/replayer'
import type { Stores } from '../stores/stores'

/**
 * Executes every record after `from`; the chain must pass `passing`. Events that the read models already have are not built.
 * @throws ReplayDisagrees, JournalDamaged
 */
export async function replay(
  parts: { journal: Journal; history: History; facts: PublicFacts; state: State; stores: Stores },
  from: ChainPoint | undefined,
  passing: readonly ChainPoint[],
): Promise<void> {
  const { journal, history, facts, state, stores } = parts
  const history_seq = history.watermark()
  const facts_seq = facts.watermark()
  const wanted = (seq: number, command: Command) =>
    seq > history_seq || (seq > facts_seq && PublicFacts.wantsEvents(command.kind))
  const replayer = new Replayer(state, wanted, stores)
  const one = (record: JournalRecord) => {
    const replayed = replayer.apply(record)
    history.record(record.seq, withTexts(replayed?.events ?? []))
    if (replayed === undefined) return
    facts.record(record.seq, replayed.command, replayed.events, state.settings?.build)
  }
  for await (const { records, end } of journal.readBatches((from?.seq ?? 0) + 1, from?.head, passing)) {
    for (const record of records) one(record)
    history.seal(end)
    facts.seal(end)
    if (history.backlog() > LIMITS.history_lag_replay_events_max) await history.flush()
  }
  replayer.end(journal.head().seq)
}
