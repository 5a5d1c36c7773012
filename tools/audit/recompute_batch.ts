/** Recomputes one auction from the journal alone and compares it with the result recorded when it was held. */

import { journaledHash } from '../../engine/boot/check_chain'
import { type Journal, JournalDamaged } from '../../engine/journal/contract'
import { openJournal } from '../../engine/journal/open_journal'
import { openSnapshotStore } from '../../engine/journal/snapshot_store'
import { decodeCommand } from '../../engine/machine/codec/command_codec'
import { decodeState } from '../../engine/machine/codec/decode_state'
import { execute } from '../../engine/machine/rules/execute'
import type { AuctionRecord } from '../../engine/machine/state/outcome'
import { createState, type State } from '../../engine/machine/state/state'
import { randomHashSeed } from '../../engine/sequencer/hash_seed'
import { AUCTION_RECORD, auctionRecord, COMMAND_RECORD } from '../../engine/sequencer/records'
import { ReplayDisagrees, Replayer } from '../../engine/sequencer/replayer'
import { equalBytes } from '../../protocol/bytes'

/** An auction as recorded in the journal. */
type RecordedAuction = {
  symbol: string
  batch: number
  slot: number
  reference_ticks: number
  seed: string
  price_ticks: number | null
  volume_lots: number
  fills: [order_id: string, lots: number][]
  cancelled: string[]
  result_hash: string
}
export type BatchAudit = {
  /** Journal seq of the record. */
  seq: number
  /** Epoch in which it was held: part of its seed. */
  epoch: number
  recorded: RecordedAuction
  /** Undefined when this build holds no such auction there. */
  recomputed: AuctionRecord | undefined
  /** Whether every byte of the record is what this build decides. */
  agrees: boolean
  /** Seq after which the replay began: that of a snapshot, or 0. */
  replayed_from: number
}

/**
 * Everything is decided again from the start of the journal, or from the newest snapshot before the auction; every auction
 * on the way is compared too. Seeds are journaled with each close: whether they are honest is another question (`batchSeed`).
 * `dir` holds `journal` and, optionally, `snapshots`; opening ends a torn last write, so hand in a copy.
 * @throws ReplayDisagrees for an earlier auction, JournalDamaged, or RangeError when there is no such auction or its past is
 * no longer kept
 */
export async function recomputeBatch(args: {
  dir: string
  journal_key: Uint8Array
  symbol: string
  batch: number
}): Promise<BatchAudit> {
  const { dir, journal_key: key, symbol, batch } = args
  const journal = await openJournal({ dir: `${dir}/journal`, key })
  try {
    const target = await findAuction(journal, symbol, batch)
    const { snapshot } = await openSnapshotStore({ dir: `${dir}/snapshots`, key }).newestValid(
      (point) => journaledHash(journal, point),
      target.command_seq - 1,
    )
    if (snapshot === undefined && journal.firstSeq() > 1)
      throw new RangeError('the journal no longer reaches back before this batch, and no snapshot does')
    const hash_seed = randomHashSeed()
    const state = snapshot === undefined ? createState(hash_seed) : decodeState(snapshot.blocks(), hash_seed)
    const held = await replayUpTo(journal, state, target.command_seq, snapshot)
    const recomputed = held.find((auction) => auction.symbol === symbol && auction.batch === batch)
    const bytes = recomputed && auctionRecord(recomputed, 0).body
    return {
      seq: target.seq,
      epoch: state.epoch,
      recorded: target.recorded,
      recomputed,
      agrees: bytes !== undefined && equalBytes(bytes, target.body),
      replayed_from: snapshot?.seq ?? 0,
    }
  } finally {
    await journal.close()
  }
}

/** The auction's position, and the command that ran it. */
async function findAuction(journal: Journal, symbol: string, batch: number) {
  const decoder = new TextDecoder()
  let command_seq = 0
  for await (const { records } of journal.readBatches(journal.firstSeq())) {
    for (const { type, seq, body } of records) {
      if (type === COMMAND_RECORD) command_seq = seq
      if (type !== AUCTION_RECORD) continue
      const recorded = JSON.parse(decoder.decode(body)) as RecordedAuction
      if (recorded.symbol === symbol && recorded.batch === batch)
        return { seq, command_seq, recorded, body: body.slice() }
    }
  }
  throw new RangeError(`the journal holds no batch ${batch} of ${symbol}`)
}

/** The auctions that the command `command_seq` holds in the state that everything before it makes. */
async function replayUpTo(
  journal: Journal,
  state: State,
  command_seq: number,
  from: { seq: number; head: Uint8Array } | undefined,
): Promise<AuctionRecord[]> {
  const replayer = new Replayer(state, () => false)
  for await (const { records } of journal.readBatches((from?.seq ?? 0) + 1, from?.head)) {
    for (const record of records) {
      if (record.seq < command_seq) {
        replayer.apply(record)
        continue
      }
      replayer.end(record.seq)
      const outcome = execute(state, decodeCommand(record.body), {})
      if (!outcome.ok) throw new ReplayDisagrees(record.seq, `refused with ${outcome.code}`)
      return outcome.auctions
    }
  }
  throw new JournalDamaged(command_seq, 'journal', 0, 'ends before the auction')
}
