/** Rebuilds the state from the journal at boot and feeds the read models what they miss. */
import type { Command } from '../commands'
import type { History } from '../history/contract'
import type { Journal, JournalRecord } from '../journal/contract'
import type { AccountEventOut, Env } from '../state/outcome'
import type { State } from '../state/state'
import { Replayer } from './replay_record'

/** Backlog of read-model events above which replay waits for the disk. */
const HISTORY_BACKLOG = 50_000

/**
 * Executes everything after `from`, feeding the read models what they miss. `seen` gets each command once it is applied.
 * @throws ReplayDisagrees, JournalDamaged.
 */
export async function replay(
  parts: { journal: Journal; history: History; state: State; env: Env },
  from: { seq: number; head: Uint8Array | undefined },
  seen: (command: Command, seq: number, events: readonly AccountEventOut[]) => void,
): Promise<void> {
  const { journal, history, state, env } = parts
  const replayer = new Replayer(state, env)
  const one = (record: JournalRecord) => {
    const replayed = replayer.apply(record)
    history.record(record.seq, replayed?.events ?? [])
    if (replayed !== undefined) seen(replayed.command, record.seq, replayed.events)
  }
  for await (const records of journal.readBatches(from.seq + 1, from.head)) {
    for (const record of records) one(record)
    if (history.backlog() > HISTORY_BACKLOG) await history.flush()
  }
  replayer.end(journal.head().seq)
}
