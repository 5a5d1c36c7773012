/** Encodes the whole state in its version: equal states give equal bytes, so their hash compares machines and replays. */

import { ByteWriter } from '../../../protocol/byte_stream'
import { type Codec, list, option } from '../../../protocol/codec'
import { sha256 } from '../../../protocol/sha256'
import type { Exit, Reshape, Settlement, Withdrawal } from '../state/batch'
import type { ClosedBatch, WaitingCancel } from '../state/closed'
import { ROW_BYTES } from '../state/final_orders'
import { PAST_KINDS, queuesOf } from '../state/past'
import type { State } from '../state/state'
import { encodeDeferred } from './command_codec'
import {
  account_row,
  batch_row,
  closed_row,
  exit_row,
  fill_row,
  heading,
  instrument_row,
  key_row,
  mint_row,
  reshape_row,
  settlement_row,
  withdrawal_row,
  writeNote,
  writeOrder,
} from './snapshot_layout'
import { type Tables, tablesOf } from './snapshot_tables'

/** Approximate length of a block. */
const BLOCK_BYTES = 1024 * 1024

export function encodeState(state: State): Uint8Array {
  const to = new ByteWriter(expectedBytes(state))
  for (const _ of write(to, state));
  return to.whole()
}

/** The same in blocks, each valid until the next is requested; the state must not change during the iteration. */
export function* encodeBlocks(state: State, block_bytes = BLOCK_BYTES): Generator<Uint8Array> {
  const to = new ByteWriter(2 * block_bytes)
  for (const _ of write(to, state)) {
    if (to.length < block_bytes) continue
    yield to.whole()
    to.begin()
  }
  yield to.whole()
}

/** SHA-256 of the encoded state. */
export function stateHash(state: State): Uint8Array {
  return sha256(encodeState(state))
}

/** Yields after each row of the large tables, so that the caller can flush. */
function* write(to: ByteWriter, state: State): Generator<void> {
  const tables = tablesOf(state)
  const keys = [...state.keys.values()]
  const rows = <T>(codec: Codec<T>, values: Iterable<T>) => list(codec).write(to, [...values])
  to.byte(state.version)
  heading.write(to, state)
  rows(mint_row, state.mints)
  rows(instrument_row, state.instruments.values())
  rows(
    account_row,
    tables.accounts.rows.map((account) => ({ ...account, armed: [...account.armed] })),
  )
  rows(
    key_row,
    keys.map((key) => ({ ...key, account: tables.accounts.at(key.account) })),
  )
  to.uint(state.notes.size)
  to.uint(tables.notes.size)
  for (const note of tables.notes.rows()) yield writeNote(to, note)
  rows(
    fill_row,
    tables.fills.rows.map((fill) => ({
      ...fill,
      account: tables.accounts.at(fill.account),
      proceeds: tables.notes.maybe(fill.proceeds),
      change: tables.notes.maybe(fill.change),
    })),
  )
  option(closed_row).write(to, state.closed && closedRow(state.closed, tables))
  to.uint(state.orders.size)
  for (const order of state.orders.values()) yield writeOrder(to, order, tables)
  const queues = queuesOf(state)
  for (const kind of PAST_KINDS) yield* queues[kind].encode(to)
  encodeSettlement(to, state.settlement, tables)
}

function closedRow({ seq, slot, capacity, due, waiting, endings }: ClosedBatch, tables: Tables) {
  const cancelRow = (one: WaitingCancel) => ({ ...one, key: one.key.index })
  return {
    seq,
    slot,
    capacity,
    due: due.map((one) => ({ ...one, instrument: one.instrument.index })),
    waiting: waiting.map((one) => {
      if (one.kind === 'exit') return one
      if (one.kind === 'cancel') return cancelRow(one)
      const { key, command, note } = one
      return { ...one, key: key.index, command: encodeDeferred(command), note: tables.notes.maybe(note) }
    }),
    endings: endings.map(cancelRow),
  }
}

/** A slight overestimate: reserved memory that is not written costs nothing, growing the buffer does. */
function expectedBytes(state: State): number {
  const queued = Object.values(queuesOf(state)).reduce((sum, { size, first }) => sum + size - first, 0)
  return 65_536 + state.notes.lives * 175 + state.orders.size * 320 + queued * ROW_BYTES
}

function encodeSettlement(to: ByteWriter, settlement: Settlement, tables: Tables): void {
  const refOf = (payment: Withdrawal | Reshape | Exit) =>
    payment.kind === 'exit'
      ? { exit: true, at: tables.exits.at(payment) }
      : { exit: false, at: tables.payments.at(payment) }
  to.uint(settlement.payments.size)
  to.uint(tables.payments.rows.length)
  for (const payment of tables.payments.rows) encodePayment(to, payment, tables)
  list(exit_row).write(
    to,
    tables.exits.rows.map((exit) => ({ ...exit, note: tables.notes.maybe(exit.note) })),
  )
  list(batch_row).write(
    to,
    [...settlement.batches.values()].map((batch) => ({
      ...batch,
      inputs: batch.inputs.map(tables.notes.at),
      outputs: batch.outputs.map((output) => ({ ...output, note: tables.notes.at(output.note) })),
      fills: batch.fills.map(tables.fills.at),
      payouts: batch.payouts.map(refOf),
      reshapes: batch.reshapes.map(tables.payments.at),
    })),
  )
  settlement_row.write(to, {
    ...settlement,
    waiting: settlement.waiting.map(refOf),
    queued: [...settlement.queued].map(([number, payout]) =>
      payout.kind === 'restored'
        ? { payment: undefined, restored: { number, ...payout } }
        : { payment: refOf(payout), restored: undefined },
    ),
  })
}

function encodePayment(to: ByteWriter, payment: Withdrawal | Reshape, tables: Tables): void {
  const key = payment.key.index
  if (payment.kind === 'withdrawal') {
    to.byte(0)
    const { note, change } = payment
    withdrawal_row.write(to, {
      ...payment,
      key,
      note: tables.notes.at(note),
      change: tables.notes.maybe(change),
    })
    return
  }
  to.byte(1)
  const { inputs, outputs } = payment
  reshape_row.write(to, {
    ...payment,
    key,
    inputs: inputs.map(tables.notes.at),
    outputs: outputs.map(tables.notes.at),
  })
}
