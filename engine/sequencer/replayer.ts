/** Defines the two types of journal records, and replays them on a state, comparing every auction with its recorded result. */
import { equalBytes, toHex, utf8 } from '../../protocol/bytes'
import type { JournalSeq } from '../../protocol/units'
import type { Command } from '../commands'
import type { JournalRecord, NewRecord } from '../journal/contract'
import { decodeCommand, decodeReplayed, kindOf } from '../machine/codec/command_codec'
import { execute } from '../machine/rules/execute'
import type { AccountEventOut, AuctionRecord } from '../machine/state/outcome'
import type { State } from '../machine/state/state'
import type { Stores } from '../stores/stores'

export const COMMAND_RECORD = 1
/** Follows the command that ran the auction; several follow in the order of the auctions. */
export const AUCTION_RECORD = 2

/** An auction's result as JSON of fixed field order, so that equal results are equal bytes. */
export function auctionRecord(auction: AuctionRecord, unix_ms: number): NewRecord {
  const body = {
    symbol: auction.symbol,
    batch: auction.batch,
    slot: auction.slot,
    reference_ticks: auction.reference_ticks,
    seed: toHex(auction.seed),
    price_ticks: auction.price_ticks,
    volume_lots: auction.volume_lots,
    fills: auction.fills.map(({ order_id, lots }) => [order_id, lots]),
    cancelled: auction.cancelled,
    result_hash: toHex(auction.result_hash),
  }
  return { type: AUCTION_RECORD, unix_ms, body: utf8(JSON.stringify(body)) }
}

/** The record of the snapshot at `seq`; undefined without one. */
export function snapshotTaken({ type, body }: JournalRecord, seq: JournalSeq) {
  if (type !== COMMAND_RECORD || kindOf(body) !== 'snapshot_taken') return undefined
  const command = decodeCommand(body)
  return command.kind === 'snapshot_taken' && command.seq === seq ? command : undefined
}

/** This build decides differently from the journal: the venue must not start. */
export class ReplayDisagrees extends Error {
  override readonly name = 'ReplayDisagrees'
  constructor(
    /** Journal seq of the record that differs. */
    readonly seq: JournalSeq,
    reason: string,
  ) {
    super(`replay disagrees with the journal at seq ${seq}: ${reason}`)
  }
}

type Replayed = { command: Command; events: readonly AccountEventOut[] }

export class Replayer {
  /** Auctions that the newest command ran in this replay; their records must follow. */
  private readonly expected: NewRecord[] = []

  constructor(
    private readonly state: State,
    /** Get the rows that leave the state, unless they have them already. */
    private readonly stores?: Pick<Stores, 'extend'>,
    /** Whether the events of a command are needed; building them costs more than applying the command. */
    private readonly wanted?: (seq: JournalSeq, command: Command) => boolean,
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
    const command = decodeReplayed(record.body)
    if (command.kind === 'snapshot_taken') this.stores?.extend(this.state, command.covered)
    const events = this.wanted?.(record.seq, command) ? 'kept' : 'skipped'
    const outcome = execute(this.state, command, {}, events)
    if (!outcome.ok) throw new ReplayDisagrees(record.seq, `refused with ${outcome.code}`)
    for (const auction of outcome.auctions) this.expected.push(auctionRecord(auction, command.unix_ms))
    return { command, events: outcome.events }
  }

  /** Verifies that no auction record is missing before `seq`. @throws ReplayDisagrees */
  end(seq: JournalSeq): void {
    if (this.expected.length > 0) throw new ReplayDisagrees(seq, 'an auction was not held then')
  }
}

function compareAuction(record: JournalRecord, expected: NewRecord | undefined): void {
  if (expected === undefined) throw new ReplayDisagrees(record.seq, 'an auction is not held now')
  if (!equalBytes(record.body, expected.body))
    throw new ReplayDisagrees(record.seq, 'an auction ends otherwise')
}
