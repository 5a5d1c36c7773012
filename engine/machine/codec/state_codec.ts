/** Encodes the whole state in its version, so that equal states give equal bytes, and decodes it with its indexes. */
import { encodeBase58 } from '../../../protocol/base58'
import { ByteReader, ByteWriter } from '../../../protocol/byte_stream'
import { type Codec, list, option, type ValueOf } from '../../../protocol/codec'
import { sha256 } from '../../../protocol/sha256'
import type { CommandOf } from '../../commands'
import { addToBucket } from '../../memory/buckets'
import type { HashSeed } from '../../memory/id_table'
import { newList } from '../../memory/rows'
import { Book } from '../book/book'
import { addKey } from '../rules/checks'
import { restOrder } from '../rules/order_life'
import { newAccount, type TradingKey } from '../state/account'
import type { Exit, Reshape, RestoredPayout, Settlement, Withdrawal } from '../state/batch'
import { ClosedBatch, type WaitingCancel } from '../state/closed'
import { addInstrument } from '../state/instrument'
import { ROW_BYTES } from '../state/live_orders'
import { holdAll, type Note, notesOfBatch, notesOfPayment } from '../state/note'
import type { FillRecord } from '../state/order'
import { PAST_KINDS, queuesOf } from '../state/past'
import { createState, keyBytes, requireVersion, type State, setSettings } from '../state/state'
import { decodeReplayed, encodeDeferred } from './command_codec'
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
  readNote,
  readOrder,
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

/**
 * @param snapshot as a whole or in blocks, which are not retained, so only the state stays in memory
 * @param seed, orders as in createState
 * @throws VersionUnknown; CodecError unless the bytes are exactly one encoded state
 */
export function decodeState(
  snapshot: Uint8Array | Iterator<Uint8Array>,
  seed: HashSeed,
  orders?: number,
): State {
  const from =
    snapshot instanceof Uint8Array ? new ByteReader(snapshot) : new ByteReader(new Uint8Array(0), 0, snapshot)
  const version = requireVersion(from.byte())
  const state = createState(seed, orders)
  state.version = version
  readHeading(state, from)
  readInstruments(state, from)
  const keys = readKeys(state, from)
  const noteAt = readNotes(state, from)
  const fills = readFills(state, from, noteAt)
  const known = { keys, instruments: state.instrument_list, noteAt, fills }
  state.closed = readClosed(state, from, keys, noteAt)
  const orders_live = from.uint()
  state.orders.reserve(orders_live)
  for (let count = orders_live; count > 0; count--) restOrder(state, readOrder(from, known))
  const queues = queuesOf(state)
  for (const kind of PAST_KINDS) queues[kind].decode(from)
  state.settlement = decodeSettlement(from, { keys, noteAt, fills })
  from.done()
  holdSettling(state)
  return state
}

function readHeading(state: State, from: ByteReader): void {
  Object.assign(state, heading.read(from))
  if (state.settings !== undefined) setSettings(state, state.settings)
}

function readInstruments(state: State, from: ByteReader): void {
  state.mints = list(mint_row)
    .read(from)
    .map((row) => ({ ...row, bytes: keyBytes(row.text) }))
  for (const [index, row] of list(instrument_row).read(from).entries()) {
    const center = row.reference_ticks ?? row.terms.initial_reference_ticks
    const book = new Book(state.pool, center)
    addInstrument(state, { ...row, index, live: 0, book })
  }
}

function readKeys(state: State, from: ByteReader): TradingKey[] {
  const accounts = list(account_row)
    .read(from)
    .map((row) => ({ ...newAccount(row.account_id, row.account_key), ...row, armed: new Set(row.armed) }))
  for (const account of accounts) {
    state.accounts.set(account.account_id, account)
    for (const { credential_id } of account.credentials) state.credentials.set(credential_id, account)
  }
  return list(key_row)
    .read(from)
    .map((row, index) => {
      const account = accounts[row.account]!
      const key: TradingKey = { ...row, index, text: encodeBase58(row.bytes), account, orders: newList() }
      addKey(state, key)
      account.keys.push(key)
      if (key.dead_man_slot > 0) addToBucket(state.timers, key.dead_man_slot, key)
      return key
    })
}

/** The note at an index of the table of notes. */
type NoteAt = (place: number) => Note

/** The known notes come first. */
function readNotes(state: State, from: ByteReader): NoteAt {
  const { notes } = state
  const known = from.uint()
  const handles = new Uint32Array(from.uint())
  notes.reserve(handles.length, known)
  for (let place = 0; place < handles.length; place++) {
    const note = readNote(from, state)
    handles[place] = note.handle
    if (place < known) notes.register(note)
  }
  return (place) => notes.at(handles[place]!)
}

function readFills(state: State, from: ByteReader, noteAt: NoteAt): FillRecord[] {
  const accounts = [...state.accounts.values()]
  return list(fill_row)
    .read(from)
    .map((row) => ({
      ...row,
      account: accounts[row.account]!,
      proceeds: maybe(noteAt, row.proceeds),
      change: maybe(noteAt, row.change),
    }))
}

/** Before the orders: the book separates members from later orders by the batch that is closed. */
function readClosed(
  state: State,
  from: ByteReader,
  keys: TradingKey[],
  noteAt: NoteAt,
): ClosedBatch | undefined {
  const row = option(closed_row).read(from)
  if (row === undefined) return undefined
  const due = row.due.map((one) => ({ ...one, instrument: state.instrument_list[one.instrument]! }))
  const closed = new ClosedBatch(row.seq, row.slot, row.capacity, due)
  const withKey = <T extends { key: number }>(one: T) => ({ ...one, key: keys[one.key]! })
  for (const one of row.waiting) {
    if (one.kind === 'exit') closed.waiting.push(one)
    else if (one.kind === 'cancel') closed.defer(withKey(one))
    else {
      const command = decodeReplayed(one.command) as CommandOf<'modify'>
      closed.defer({ ...withKey(one), command, note: maybe(noteAt, one.note) })
    }
  }
  for (const one of row.endings) closed.end({ ...withKey(one), kind: 'cancel' })
  return closed
}

/** The tables decoded before the settlement. */
type Decoding = { keys: TradingKey[]; noteAt: NoteAt; fills: FillRecord[] }

function decodeSettlement(from: ByteReader, known: Decoding): Settlement {
  const { noteAt, fills } = known
  const readable = from.uint()
  const payments = Array.from({ length: from.uint() }, () => decodePayment(from, known))
  const exits: Exit[] = list(exit_row)
    .read(from)
    .map((row) => ({ ...row, kind: 'exit', note: maybe(noteAt, row.note) }))
  const payoutOf = (ref: { exit: boolean; at: number }) => (ref.exit ? exits[ref.at]! : payments[ref.at]!)
  const batches = list(batch_row)
    .read(from)
    .map((row) => ({
      ...row,
      inputs: row.inputs.map(noteAt),
      outputs: row.outputs.map((output) => ({ ...output, note: noteAt(output.note) })),
      fills: row.fills.map((at) => fills[at]!),
      payouts: row.payouts.map((ref) => payoutOf(ref) as Withdrawal | Exit),
      reshapes: row.reshapes.map((at) => payments[at] as Reshape),
    }))
  const row = settlement_row.read(from)
  return {
    ...row,
    waiting: row.waiting.map(payoutOf),
    queued: new Map(row.queued.map((one) => queuedOf(one, payoutOf))),
    batches: new Map(batches.map((batch) => [batch.batch_id, batch])),
    payments: new Map(payments.slice(0, readable).map((payment) => [idOf(payment), payment])),
    exits: new Map(exits.map((exit) => [exit.nullifier.toHex(), exit])),
  }
}

type Queued = ValueOf<typeof settlement_row>['queued'][number]

function queuedOf(
  { payment, restored }: Queued,
  payoutOf: (ref: NonNullable<Queued['payment']>) => Withdrawal | Reshape | Exit,
): [number, Withdrawal | Exit | RestoredPayout] {
  if (restored !== undefined) {
    const { number, ...terms } = restored
    return [number, { kind: 'restored', ...terms }]
  }
  const payout = payoutOf(payment!) as Withdrawal | Exit
  return [payout.payout_number, payout]
}

function decodePayment(from: ByteReader, { keys, noteAt }: Decoding): Withdrawal | Reshape {
  if (from.byte() === 0) {
    const row = withdrawal_row.read(from)
    const key = keys[row.key]!
    return { ...row, kind: 'withdrawal', key, note: noteAt(row.note), change: maybe(noteAt, row.change) }
  }
  const row = reshape_row.read(from)
  const [inputs, outputs] = [row.inputs, row.outputs].map((list) => list.map(noteAt))
  return { ...row, kind: 'reshape', key: keys[row.key]!, inputs: inputs!, outputs: outputs! }
}

function idOf(payment: Withdrawal | Reshape): string {
  return payment.kind === 'withdrawal' ? payment.withdrawal_id : payment.reshape_id
}

function maybe(noteAt: NoteAt, place: number | undefined): Note | undefined {
  return place === undefined ? undefined : noteAt(place)
}

/** Restores the holds of batches, payments and exits; orders hold their notes when they are added. */
function holdSettling({ notes, settlement, closed }: State): void {
  for (const batch of settlement.batches.values()) holdAll(notes, notesOfBatch(batch))
  for (const payment of settlement.payments.values()) holdAll(notes, notesOfPayment(payment))
  for (const { note } of settlement.exits.values()) if (note !== undefined) notes.hold(note)
  for (const one of closed?.waiting ?? []) {
    if (one.kind === 'modify' && one.note !== undefined) notes.hold(one.note)
  }
}
