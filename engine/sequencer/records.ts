/** Defines the two types of journal records: commands, and the auction results that a replay must reproduce. */

import { toHex, utf8 } from '../../protocol/bytes'
import type { JournalSeq } from '../../protocol/units'
import type { JournalRecord, NewRecord } from '../journal/contract'
import { decodeCommand, kindOf } from '../machine/codec/command_codec'
import type { AuctionRecord } from '../machine/state/outcome'

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

/** What a record states of the snapshot at `seq`; undefined if it states nothing of it. */
export function snapshotTaken({ type, body }: JournalRecord, seq: JournalSeq) {
  if (type !== COMMAND_RECORD || kindOf(body) !== 'snapshot_taken') return undefined
  const command = decodeCommand(body)
  return command.kind === 'snapshot_taken' && command.seq === seq ? command : undefined
}
