/** Encodes the whole state: the same state gives the same bytes, so their hash compares machines and replays. */
import { encodeSettlement } from '../settlement/encode_settlement'
import { ByteWriter } from './byte_stream'
import { type Codec, list, uint } from './codec'
import { ROW_BYTES } from './final_row'
import { writeNote } from './note_codec'
import { writeOrder } from './order_codec'
import { tablesOf } from './snapshot_tables'
import type { State } from './state'
import { account_row, fill_row, heading, instrument_row, key_row, mint_row } from './state_codec'

/** First byte of a snapshot: its layout. */
export const STATE_LAYOUT = 2
/** A block is about this long. */
const BLOCK_BYTES = 1024 * 1024

export function encodeState(state: State): Uint8Array {
  const to = new ByteWriter(expectedBytes(state))
  for (const _ of write(to, state));
  return to.whole()
}

/** The same in blocks, each valid until the next is asked for; the state must not change meanwhile. */
export function* encodeBlocks(state: State, block_bytes = BLOCK_BYTES): Generator<Uint8Array> {
  const to = new ByteWriter(2 * block_bytes)
  for (const _ of write(to, state)) {
    if (to.length < block_bytes) continue
    yield to.whole()
    to.begin()
  }
  yield to.whole()
}

/** Stops after every row of what there are many of, so that somebody may take what was written. */
function* write(to: ByteWriter, state: State): Generator<void> {
  const tables = tablesOf(state)
  const keys = [...state.keys.values()]
  const rows = <T>(codec: Codec<T>, values: Iterable<T>) => list(codec).write(to, [...values])
  to.byte(STATE_LAYOUT)
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
  to.uint(state.orders.size)
  for (const order of state.orders.values()) yield writeOrder(to, order, tables)
  yield* state.finals.encode(to)
  yield* state.leaves.encode(to)
  yield* state.nullifiers.encode(to)
  list(uint).write(to, state.nullifier_ends)
  list(uint).write(to, trimmed(state.spent_owners))
  encodeSettlement(to, state.settlement, tables)
}

/** About what it takes and a little more: what is reserved and not written costs nothing, a second buffer does. */
function expectedBytes({ notes, orders, finals, leaves, nullifiers, spent_owners }: State): number {
  const trees = (leaves.size + nullifiers.size) * 32 + spent_owners.length * 8
  return 65_536 + notes.lives * 208 + orders.size * 320 + finals.size * ROW_BYTES + trees
}

/** Without what memory was reserved ahead. */
function trimmed(owners: Uint32Array): number[] {
  let length = owners.length
  while (length > 0 && owners[length - 1] === 0) length--
  return Array.from(owners.subarray(0, length))
}
