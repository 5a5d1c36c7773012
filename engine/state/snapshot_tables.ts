/** Numbers the objects a snapshot refers to, in an order that depends on the state alone. */
import type { Exit, Reshape, SettlementBatch, Withdrawal } from '../settlement/batch'
import type { Account } from './account'
import type { Note } from './note'
import type { FillRecord } from './order'
import type { State } from './state'

/** Positions by first sight. */
export class Table<T> {
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

export type Tables = {
  accounts: Table<Account>
  /** Those in `State.notes` come first, in their order. */
  notes: Table<Note>
  fills: Table<FillRecord>
  payments: Table<Withdrawal | Reshape>
  exits: Table<Exit>
}

export function tablesOf(state: State): Tables {
  const tables: Tables = {
    accounts: new Table(),
    notes: new Table(),
    fills: new Table(),
    payments: new Table(),
    exits: new Table(),
  }
  for (const account of state.accounts.values()) tables.accounts.add(account)
  for (const note of state.notes.values()) tables.notes.add(note)
  for (const order of state.orders.values()) {
    tables.notes.add(order.collateral)
    for (const fill of order.fills) addFill(tables, fill)
  }
  for (const payment of state.settlement.payments.values()) addPayment(tables, payment)
  for (const exit of state.settlement.exits.values()) {
    if (exit.note !== undefined) tables.notes.add(exit.note)
    tables.exits.add(exit)
  }
  for (const batch of state.settlement.batches.values()) addBatch(tables, batch)
  return tables
}

function addFill(tables: Tables, fill: FillRecord): void {
  if (fill.proceeds !== undefined) tables.notes.add(fill.proceeds)
  if (fill.change !== undefined) tables.notes.add(fill.change)
  tables.fills.add(fill)
}

function addPayment(tables: Tables, payment: Withdrawal | Reshape): void {
  tables.payments.add(payment)
  if (payment.kind === 'withdrawal') {
    tables.notes.add(payment.note)
    if (payment.change !== undefined) tables.notes.add(payment.change)
    return
  }
  for (const note of [...payment.inputs, ...payment.outputs]) tables.notes.add(note)
}

function addBatch(tables: Tables, batch: SettlementBatch): void {
  for (const note of batch.inputs) tables.notes.add(note)
  for (const { note } of batch.outputs) tables.notes.add(note)
  for (const fill of batch.fills) addFill(tables, fill)
  for (const payout of batch.payouts) if (payout.kind === 'withdrawal') addPayment(tables, payout)
  for (const reshape of batch.reshapes) addPayment(tables, reshape)
}
