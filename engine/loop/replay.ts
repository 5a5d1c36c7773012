/** Rebuilds the state from the journal and compares every auction it holds with the result recorded then. */
import { equalBytes } from '../../protocol/bytes'
import type { Command } from '../commands'
import type { History } from '../history/contract'
import type { Journal, JournalRecord, NewRecord } from '../journal/contract'
import { decodeCommand } from '../state/decode_command'
import { execute } from '../state/execute'
import type { AccountEventOut, Env } from '../state/outcome'
import type { State } from '../state/state'
import { AUCTION_RECORD, auctionRecord, COMMAND_RECORD } from './records'

/** This build does not decide what the journal says was decided: refuse to start. */
export class ReplayDisagrees extends Error {
  override readonly name = 'ReplayDisagrees'
  constructor(
    /** Journal seq of the record that differs. */
    readonly seq: number,
    reason: string,
  ) {
    super(`replay disagrees with the journal at seq ${seq}: ${reason}`)
  }
}

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
  let expected: NewRecord[] = []
  const one = (record: JournalRecord) => {
    if (record.type === AUCTION_RECORD) {
      compareAuction(record, expected.shift())
      history.record(record.seq, [])
      return
    }
    if (expected.length > 0) throw new ReplayDisagrees(record.seq, 'an auction was not held then')
    if (record.type !== COMMAND_RECORD) throw new ReplayDisagrees(record.seq, 'a record of unknown type')
    const command = decodeCommand(record.body)
    const outcome = execute(state, command, env)
    if (!outcome.ok) throw new ReplayDisagrees(record.seq, `refused with ${outcome.code}`)
    expected = outcome.auctions.map((auction) => auctionRecord(auction, command.unix_ms))
    history.record(record.seq, outcome.events)
    seen(command, record.seq, outcome.events)
  }
  for await (const records of journal.readBatches(from.seq + 1, from.head)) {
    for (const record of records) one(record)
    if (history.backlog() > HISTORY_BACKLOG) await history.flush()
  }
  if (expected.length > 0) throw new ReplayDisagrees(journal.head().seq, 'an auction was not held then')
}

function compareAuction(record: JournalRecord, expected: NewRecord | undefined): void {
  if (expected === undefined) throw new ReplayDisagrees(record.seq, 'an auction is not held now')
  if (!equalBytes(record.body, expected.body))
    throw new ReplayDisagrees(record.seq, 'an auction ends otherwise')
}
