/**
 * Keeps the texts of a batch's events in memory that both threads read. Strings would be copied to the other thread, and live long
 * enough for the collector to promote them.
 */

import type * as wire from '../../protocol/wire/trading'
import { LIMITS } from '../limits'
import type { LoggedEvents, NewEvent } from './contract'
import { isFinalPayment } from './seal'

/** Offsets in an entry, little-endian: before the text, all that the tables need of it, so that the other thread parses none. */
const AT = {
  seq: 0,
  unix_ms: 8,
  /** Number of the account in the batch. */
  account: 16,
  bytes: 20,
  /** Of an order, by number in the batch. */
  status: 24,
  symbol: 28,
  /** Whether an order is accepted by it, or a payment ends. */
  flag: 32,
  // From here on the name of the row that the event belongs to.
  row: 33,
  id: 34,
  fill_index: 50,
  /** Of a fill, or in which an order arrived. */
  slot: 54,
  text: 62,
} as const
const ID_BYTES = 16
/** Of UTF-8, for each unit of a string. */
const BYTES_PER_UNIT = 3

export const ROW = { none: 0, order: 1, fill: 2, withdrawal: 3, reshape: 4 } as const
type Row = (typeof ROW)[keyof typeof ROW]

export class EventLog {
  private bytes = 0
  private view: DataView
  private readonly words = new Map<string, number>()

  /** @param memory of a log that is no longer read */
  constructor(private memory = shared(LIMITS.history_log_bytes)) {
    this.view = new DataView(memory.buffer)
  }

  /** Returns the place of the event. */
  add(account: number, { event, text }: Pick<NewEvent, 'event' | 'text'>): number {
    const at = this.bytes
    this.grow(at + AT.text + text.length * BYTES_PER_UNIT)
    const written = this.memory.write(text, at + AT.text)
    const { view } = this
    view.setFloat64(at + AT.seq, event.seq, true)
    view.setFloat64(at + AT.unix_ms, event.unix_ms, true)
    view.setUint32(at + AT.account, account, true)
    view.setUint32(at + AT.bytes, written, true)
    this.addRow(at, event)
    this.bytes = at + AT.text + written
    return at
  }

  private addRow(at: number, { kind, data }: wire.AccountEvent): void {
    if ('fill_index' in data) this.setRow(at, ROW.fill, data.order_id, false, data.fill_index, data.slot)
    else if ('trading_key' in data && 'order_id' in data) {
      this.setRow(at, ROW.order, data.order_id, kind === 'order.accepted', 0, data.arrival_slot)
      this.view.setUint32(at + AT.status, this.word(data.status), true)
      this.view.setUint32(at + AT.symbol, this.word(data.symbol), true)
    } else if ('withdrawal_id' in data)
      this.setRow(at, ROW.withdrawal, data.withdrawal_id, isFinalPayment(data))
    else if ('reshape_id' in data) this.setRow(at, ROW.reshape, data.reshape_id, isFinalPayment(data))
    else this.view.setUint8(at + AT.row, ROW.none)
  }

  private setRow(at: number, row: number, id: string, flag: boolean, fill_index = 0, slot = 0): void {
    const { view } = this
    view.setUint8(at + AT.flag, Number(flag))
    view.setUint8(at + AT.row, row)
    if (id.length !== 2 * ID_BYTES || this.memory.write(id, at + AT.id, 'hex') !== ID_BYTES)
      throw new RangeError('an id has 16 bytes')
    view.setUint32(at + AT.fill_index, fill_index, true)
    view.setFloat64(at + AT.slot, slot, true)
  }

  private word(text: string): number {
    let word = this.words.get(text)
    if (word === undefined) {
      word = this.words.size
      this.words.set(text, word)
    }
    return word
  }

  private grow(needed: number): void {
    if (needed <= this.memory.length) return
    const larger = shared(Math.max(needed, 2 * this.memory.length))
    this.memory.copy(larger, 0, 0, this.bytes)
    this.memory = larger
    this.view = new DataView(larger.buffer)
  }

  text(at: number): string {
    const from = at + AT.text
    return this.memory.toString('utf8', from, from + this.view.getUint32(at + AT.bytes, true))
  }

  /** For the other thread, which reads while this one does. */
  shared = (): Omit<LoggedEvents, 'account_ids'> => ({
    memory: this.memory.buffer as unknown as SharedArrayBuffer,
    bytes: this.bytes,
    words: [...this.words.keys()],
  })

  /** For another log, once nothing reads this one. */
  free = (): Buffer => this.memory
}

const shared = (bytes: number): Buffer => Buffer.from(new SharedArrayBuffer(bytes) as unknown as ArrayBuffer)

/** Reads the events of a batch by their places. */
export class LoggedBatch {
  private readonly memory: Buffer
  private readonly view: DataView

  constructor(private readonly logged: LoggedEvents) {
    this.memory = Buffer.from(logged.memory as unknown as ArrayBuffer)
    this.view = new DataView(this.memory.buffer)
  }

  /** Each account's events in order. */
  accounts(): { account_id: string; events: number[] }[] {
    const accounts = this.logged.account_ids.map((account_id) => ({ account_id, events: [] as number[] }))
    for (let at = 0; at < this.logged.bytes; at += AT.text + this.bytes(at))
      accounts[this.view.getUint32(at + AT.account, true)]!.events.push(at)
    return accounts
  }

  seq = (at: number): number => this.view.getFloat64(at + AT.seq, true)
  unixMs = (at: number): number => this.view.getFloat64(at + AT.unix_ms, true)
  bytes = (at: number): number => this.view.getUint32(at + AT.bytes, true)
  row = (at: number): Row => this.view.getUint8(at + AT.row) as Row
  flag = (at: number): boolean => this.view.getUint8(at + AT.flag) === 1
  status = (at: number): wire.OrderStatus => this.word(at + AT.status) as wire.OrderStatus
  symbol = (at: number): string => this.word(at + AT.symbol)
  /** The same for orders of the same status and symbol. */
  terms = (at: number): number =>
    this.view.getUint32(at + AT.status, true) + 2 ** 32 * this.view.getUint32(at + AT.symbol, true)
  fillIndex = (at: number): number => this.view.getUint32(at + AT.fill_index, true)
  slot = (at: number): number => this.view.getFloat64(at + AT.slot, true)
  /** The same for all events of one row. */
  name = (at: number): string => this.memory.toString('latin1', at + AT.row, at + AT.text)

  private word = (at: number): string => this.logged.words[this.view.getUint32(at, true)]!

  /** Returns the number of bytes. */
  copyText(at: number, to: Buffer, to_at: number): number {
    const from = at + AT.text
    return this.memory.copy(to, to_at, from, from + this.bytes(at))
  }

  /** The ids of rows, one behind the other. */
  ids(rows: readonly number[]): Buffer {
    const ids = Buffer.allocUnsafe(rows.length * ID_BYTES)
    for (const [n, at] of rows.entries())
      this.memory.copy(ids, n * ID_BYTES, at + AT.id, at + AT.id + ID_BYTES)
    return ids
  }
}
