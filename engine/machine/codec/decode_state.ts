/** Decodes a snapshot into a state, including its order books and indexes. */
import { encodeBase58 } from '../../../protocol/base58'
import { ByteReader } from '../../../protocol/byte_stream'
import { list, option, type ValueOf } from '../../../protocol/codec'
import type { CommandOf } from '../../commands'
import { addToBucket } from '../../memory/buckets'
import type { HashSeed } from '../../memory/id_table'
import { newList } from '../../memory/rows'
import { Book } from '../book/book'
import { addKey } from '../rules/checks'
import { restOrder } from '../rules/order_life'
import { newAccount, type TradingKey } from '../state/account'
import type { Exit, Reshape, RestoredPayout, Settlement, Withdrawal } from '../state/batch'
import { ClosedBatch } from '../state/closed'
import { addInstrument } from '../state/instrument'
import { holdAll, type Note, notesOfBatch, notesOfPayment } from '../state/note'
import type { FillRecord } from '../state/order'
import { PAST_KINDS, queuesOf } from '../state/past'
import { createState, keyBytes, type State, setSettings } from '../state/state'
import { requireVersion } from '../state/version'
import { decodeReplayed } from './command_codec'
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
} from './snapshot_layout'

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
