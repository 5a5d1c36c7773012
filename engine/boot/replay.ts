/** Rebuilds the state from the journal, compares every auction with the recorded result, feeds the read models. */
import { equalBytes } from '../../protocol/bytes'
import type { Command } from '../commands'
import type { History } from '../history/contract'
import { withTexts } from '../history/event_text'
import type { Journal, JournalRecord, NewRecord } from '../journal/contract'
import { LIMITS } from '../limits'
import { decodeCommand } from '../machine/codec/command_codec'
import { execute } from '../machine/rules/execute'
import type { AccountEventOut, Env } from '../machine/state/outcome'
import type { State } from '../machine/state/state'
import { PublicFacts } from '../reads/public_facts'
import { AUCTION_RECORD, auctionRecord, COMMAND_RECORD } from '../sequencer/records'

// Applies journal records to a state, one by one, and compares every auction with the result recorded then.

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

type Replayed = { command: Command; events: readonly AccountEventOut[] }

export class Replayer {
  /** Auctions the newest command held here and whose records must follow. */
  private readonly expected: NewRecord[] = []

  constructor(
    private readonly state: State,
    private readonly env: Env,
    /** Whether anybody needs the events of a command; making them costs more than applying it. */
    private readonly wanted: (seq: number, command: Command) => boolean = () => true,
  ) {}

  /**
   * Undefined for the record of an auction.
   * @throws ReplayDisagrees
   */
  apply(record: JournalRecord): Replayed | undefined {
    if (record.type === AUCTION_RECORD) {
      compareAuction(record, this.expected.shift())
      return undefined
    }
    this.end(record.seq)
    if (record.type !== COMMAND_RECORD) throw new ReplayDisagrees(record.seq, 'a record of unknown type')
    const command = decodeCommand(record.body, 'skipped')
    const events = this.wanted(record.seq, command) ? 'kept' : 'skipped'
    const outcome = execute(this.state, command, this.env, events)
    if (!outcome.ok) throw new ReplayDisagrees(record.seq, `refused with ${outcome.code}`)
    for (const auction of outcome.auctions) this.expected.push(auctionRecord(auction, command.unix_ms))
    return { command, events: outcome.events }
  }

  /** No record of an auction may be missing before `seq`. @throws ReplayDisagrees */
  end(seq: number): void {
    if (this.expected.length > 0) throw new ReplayDisagrees(seq, 'an auction was not held then')
  }
}

function compareAuction(record: JournalRecord, expected: NewRecord | undefined): void {
  if (expected === undefined) throw new ReplayDisagrees(record.seq, 'an auction is not held now')
  if (!equalBytes(record.body, expected.body))
    throw new ReplayDisagrees(record.seq, 'an auction ends otherwise')
}

// Rebuilds the state from the journal at boot and feeds the read models what they miss.

/**
 * Executes everything after `from`, feeding the read models what they miss. Events they have already are not made again.
 * @throws ReplayDisagrees, JournalDamaged.
 */
export async function replay(
  parts: { journal: Journal; history: History; facts: PublicFacts; state: State; env: Env },
  from: { seq: number; head: Uint8Array | undefined },
): Promise<void> {
  const { journal, history, facts, state, env } = parts
  const history_seq = history.watermark()
  const facts_seq = facts.watermark()
  const wanted = (seq: number, command: Command) =>
    seq > history_seq || (seq > facts_seq && PublicFacts.wantsEvents(command.kind))
  const replayer = new Replayer(state, env, wanted)
  const one = (record: JournalRecord) => {
    const replayed = replayer.apply(record)
    history.record(record.seq, withTexts(replayed?.events ?? []))
    if (replayed === undefined) return
    facts.record(record.seq, replayed.command, replayed.events, state.settings?.build)
  }
  for await (const records of journal.readBatches(from.seq + 1, from.head)) {
    for (const record of records) one(record)
    if (history.backlog() > LIMITS.history_lag_replay_events_max) await history.flush()
  }
  replayer.end(journal.head().seq)
}
