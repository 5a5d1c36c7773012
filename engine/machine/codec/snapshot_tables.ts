/** Numbers the objects that a snapshot refers to, in an order that depends on the state alone. */
import type { Account } from '../state/account'
import type { Exit, Reshape, SettlementBatch, Withdrawal } from '../state/batch'
import { type Note, type Notes, notesOfBatch, notesOfFills, notesOfPayment } from '../state/note'
import type { FillRecord } from '../state/order'
import type { State } from '../state/state'

/** Indexes in the order of the first `add`. */
class Table<T> {
  readonly rows: T[] = []
  private readonly places = new Map<T, number>()

  add(row: T): void {
    if (this.places.has(row)) return
    this.places.set(row, this.rows.length)
    this.rows.push(row)
  }
  at = (row: T): number => {
    const place = this.places.get(row)
    if (place === undefined) throw new Error('a snapshot refers to something it does not hold')
    return place
  }
  maybe = (row: T | undefined): number | undefined => (row === undefined ? undefined : this.at(row))
}

/** The same for notes, by handle in typed arrays: there may be millions. */
class NoteTable {
  private readonly places: Uint32Array
  private readonly handles: Uint32Array
  size = 0

  constructor(private readonly notes: Notes) {
    this.places = new Uint32Array(notes.end)
    this.handles = new Uint32Array(notes.lives)
  }

  add(note: Note): void {
    this.addAt(note.handle)
  }
  /** The same by the handle of a live note: millions of references would leave hundreds of megabytes of garbage. */
  addAt(handle: number): void {
    if (this.places[handle] !== 0) return
    this.handles[this.size++] = handle
    this.places[handle] = this.size
  }
  *rows(): Generator<Note> {
    for (let place = 0; place < this.size; place++) yield this.notes.at(this.handles[place]!)
  }
  at = (note: Note): number => {
    const place = this.places[note.handle]!
    if (place === 0) throw new Error('a snapshot refers to a note it does not hold')
    return place - 1
  }
  maybe = (note: Note | undefined): number | undefined => (note === undefined ? undefined : this.at(note))
}

export type Tables = {
  accounts: Table<Account>
  /** The known notes come first, in the order of `Notes.values`. */
  notes: NoteTable
  fills: Table<FillRecord>
  payments: Table<Withdrawal | Reshape>
  exits: Table<Exit>
}

export function tablesOf(state: State): Tables {
  const tables: Tables = {
    accounts: new Table(),
    notes: new NoteTable(state.notes),
    fills: new Table(),
    payments: new Table(),
    exits: new Table(),
  }
  for (const account of state.accounts.values()) tables.accounts.add(account)
  state.notes.eachHandle((handle) => tables.notes.addAt(handle))
  for (const one of state.closed?.waiting ?? []) {
    if (one.kind === 'modify' && one.note !== undefined) tables.notes.add(one.note)
  }
  state.orders.eachHolding((collateral, fills) => {
    tables.notes.addAt(collateral)
    for (const fill of fills) addFill(tables, fill)
  })
  for (const payment of state.settlement.payments.values()) addPayment(tables, payment)
  for (const exit of state.settlement.exits.values()) {
    if (exit.note !== undefined) tables.notes.add(exit.note)
    tables.exits.add(exit)
  }
  for (const batch of state.settlement.batches.values()) addBatch(tables, batch)
  return tables
}

function addFill(tables: Tables, fill: FillRecord): void {
  for (const note of notesOfFills([fill])) tables.notes.add(note)
  tables.fills.add(fill)
}

function addPayment(tables: Tables, payment: Withdrawal | Reshape): void {
  tables.payments.add(payment)
  for (const note of notesOfPayment(payment)) tables.notes.add(note)
}

function addBatch(tables: Tables, batch: SettlementBatch): void {
  for (const note of notesOfBatch(batch)) tables.notes.add(note)
  for (const fill of batch.fills) addFill(tables, fill)
  for (const payout of batch.payouts) if (payout.kind === 'withdrawal') addPayment(tables, payout)
  for (const reshape of batch.reshapes) addPayment(tables, reshape)
}
