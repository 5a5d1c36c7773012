/** Makes the export of one batch from the journal alone (matching.md "Auditing"). */

import { encryptToRecipient } from '../../protocol/age'
import {
  type AuctionExport,
  auctionHash,
  type ExportedOrder,
  encodeExport,
  padExport,
  signedExportBytes,
} from '../../protocol/bodies/auction_export'
import { STATEMENT_BODY } from '../../protocol/bodies/statements'
import { sign } from '../../protocol/sign'
import type { ChainPoint } from '../../protocol/units'
import type { GroupSigner, JournalRecord } from '../journal/contract'
import { readGroups } from '../journal/frame'
import { readSegments } from '../journal/read_segments'
import { listSegments } from '../journal/segment_files'
import { openSnapshotStore } from '../journal/snapshot_store'
import { LIMITS } from '../limits'
import { decodeCommand } from '../machine/codec/command_codec'
import { decodeState } from '../machine/codec/state_codec'
import { execute } from '../machine/rules/execute'
import type { ClosedBatch } from '../machine/state/closed'
import type { AuctionRecord } from '../machine/state/outcome'
import { createState, type State } from '../machine/state/state'
import { COMMAND_RECORD, ReplayDisagrees, Replayer } from '../sequencer/replayer'
import { randomHashSeed } from '../sequencer/seeds'
import { durableRecords } from '../snapshots/make_snapshot'

/** A batch of an instrument, by the number that its fills state. */
export type BatchName = { symbol: string; batch: number }
export type ExportOrder = BatchName & {
  journal_dir: string
  snapshots_dir: string
  journal_key: Uint8Array
  /** Durable end of the journal. */
  point: ChainPoint
  signer: GroupSigner
  /** age recipient. */
  auditor_key: string
}

/**
 * The file for the auditor. A batch without members is exported like any other. Undefined when the journal holds no such
 * auction, because the batch is void, undecided or unknown, or when neither its start nor a snapshot leads to it.
 * @throws JournalDamaged, ReplayDisagrees
 */
export async function exportBatch(order: ExportOrder): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const exported = await readBatch(order)
  if (exported === undefined) return undefined
  const { venue, epoch, seed, statement_key, certificate } = order.signer
  const content = encodeExport(exported)
  const padded = padExport({
    certificate: STATEMENT_BODY.encode({ venue, statement_key, epoch: BigInt(epoch) }),
    certificate_signature: certificate,
    signature: sign(seed, signedExportBytes(venue, BigInt(epoch), content)),
    content,
  })
  return await encryptToRecipient(order.auditor_key, padded)
}

/** Decides everything again up to the batch, as a boot does, so the export shows the decisions of this build. */
async function readBatch(order: ExportOrder): Promise<AuctionExport | undefined> {
  const { journal_dir, snapshots_dir, journal_key: key, point } = order
  const where = { dir: journal_dir, key }
  const first_seq = listSegments(journal_dir, key)[0]!.seq + 1
  const found = findClose(where, first_seq, order)
  if (found === undefined) return undefined
  const { close_seq, hashes } = found
  const store = openSnapshotStore({ dir: snapshots_dir, key })
  const { snapshot } = await store.newestValid(async ({ seq }) => hashes.get(seq), close_seq - 1)
  if (snapshot === undefined && first_seq > 1) return undefined
  const seed = randomHashSeed()
  const orders = LIMITS.orders_live_max
  const state =
    snapshot === undefined ? createState(seed, orders) : decodeState(snapshot.blocks(), seed, orders)
  const passed = snapshot === undefined ? [point] : [snapshot, point]
  const records = durableRecords(where, (snapshot?.seq ?? 0) + 1, passed, point.seq)
  const held = replayBatch(state, records, close_seq, order)
  return held && { ...held, close_seq, close_head: headAt(where, close_seq, point.seq) }
}

/** The seq of the record that closed the batch, and the hashes that the journal states of snapshots. */
function findClose(
  where: { dir: string; key: Uint8Array },
  first_seq: number,
  { symbol, batch, point }: ExportOrder,
): { close_seq: number; hashes: ReadonlyMap<number, Uint8Array> } | undefined {
  const hashes = new Map<number, Uint8Array>()
  let close_seq: number | undefined
  for (const records of durableRecords(where, first_seq, [point], point.seq)) {
    for (const { type, seq, body } of records) {
      const command = type === COMMAND_RECORD ? decodeCommand(body) : undefined
      if (command?.kind === 'snapshot_taken') hashes.set(command.seq, command.state_hash)
      if (command?.kind !== 'closed') continue
      if (command.due.some((one) => one.symbol === symbol && one.batch === batch)) close_seq = seq
    }
  }
  return close_seq === undefined ? undefined : { close_seq, hashes }
}

type HeldBatch = Omit<AuctionExport, 'close_seq' | 'close_head'>

/** Replays to the decision of the batch. Undefined when it is void, or undecided at the end of the records. */
function replayBatch(
  state: State,
  chunks: Iterable<JournalRecord[]>,
  close_seq: number,
  name: BatchName,
): HeldBatch | undefined {
  const replayer = new Replayer(state)
  let members: Members | undefined
  for (const records of chunks) {
    for (const record of records) {
      if (record.seq <= close_seq) {
        replayer.apply(record)
        if (record.seq === close_seq) members = membersOf(state, name)
        continue
      }
      const command = decodeCommand(record.body)
      if (command.kind !== 'decided') {
        replayer.apply(record)
        // A freeze of the vault voids the batch.
        if (state.closed?.seq !== close_seq) return undefined
        continue
      }
      const outcome = execute(state, command, {}, 'skipped')
      if (!outcome.ok) throw new ReplayDisagrees(record.seq, `refused with ${outcome.code}`)
      if (command.outcome === 'void') return undefined
      return heldBatch(members!, outcome.auctions)
    }
  }
  return undefined
}

type Members = Omit<HeldBatch, 'price_ticks' | 'volume_lots' | 'result_hash'>

/** The members: at the record of a close every live order is one. With them the terms and inputs of the match. */
function membersOf(state: State, { symbol, batch }: BatchName): Members {
  const closed: ClosedBatch | undefined = state.closed
  const due = closed?.due.find((one) => one.batch === batch && one.instrument.terms.symbol === symbol)
  if (closed === undefined || due === undefined) throw new Error('the close does not close the batch')
  const { instrument, reference_ticks, seed } = due
  const { collar_bps, price_rule, volume_tolerance_bps } = instrument.terms
  const orders: ExportedOrder[] = []
  const { pool } = state
  for (const order of state.orders.values()) {
    if (order.instrument !== instrument) continue
    const { handle, order_id, side, type, arrival_batch } = order
    const [ticks, lots, min_lots] = [pool.tick[handle]!, pool.remaining[handle]!, pool.minFill(handle)]
    orders.push({ order_id, side, type, ticks, lots, min_lots, arrival_batch })
  }
  orders.sort((a, b) => (a.order_id < b.order_id ? -1 : 1))
  const terms = { collar_bps, price_rule, volume_tolerance_bps }
  return { symbol, batch, slot: closed.slot, reference_ticks, ...terms, seed, orders }
}

/** A book without orders holds no auction: its result is the empty one. */
function heldBatch(members: Members, auctions: readonly AuctionRecord[]): HeldBatch {
  const { symbol, batch, slot, reference_ticks, seed } = members
  const held = auctions.find((one) => one.symbol === symbol && one.batch === batch)
  const empty = { price_ticks: null, volume_lots: 0, fills: [], cancelled: [] }
  return {
    ...members,
    price_ticks: held?.price_ticks ?? 0,
    volume_lots: held?.volume_lots ?? 0,
    result_hash: held?.result_hash ?? auctionHash({ symbol, batch, slot, reference_ticks, seed, ...empty }),
  }
}

/** The chain head after the group that ends with record `seq`. */
function headAt(where: { dir: string; key: Uint8Array }, seq: number, seq_last: number): Uint8Array {
  const reader = readSegments(where, listSegments(where.dir, where.key), { seq: seq_last }, seq, [])
  try {
    const { groups, from } = reader.next()
    const group = from && readGroups(groups, from.point).find((one) => one.seq === seq)
    if (group === undefined) throw new Error('the close is not the last record of its group')
    return group.head
  } finally {
    reader.stop()
  }
}
