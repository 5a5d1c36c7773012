/** Defines the rows of live orders and of their anchors, references to them, and the record of a fill. */
import type { ByteWriter } from '../../../protocol/byte_stream'
import { copyBytes } from '../../../protocol/bytes'
import type { BaseUnits, EventSeq, Lots, Price, QuoteUnits, SlotNumber, Ticks } from '../../../protocol/units'
import type { FillStage, OrderType, Side } from '../../../protocol/wire/trading'
import { type Chunk, RowSlab, readU48 } from '../../memory/rows'
import type { SharedTexts } from '../../memory/texts'
import type { OrderPool } from '../book/order_pool'
import type { Account, TradingKey } from './account'
import type { InstrumentState } from './instrument'
import type { Note, Notes } from './note'

/**
 * Defines the row of a live order in memory: 120 bytes, little-endian. The row has the handle of the order in the book, and
 * omits the fields that the book stores: id, price, arrival batch, remaining lots and, except for fok, the minimum fill.
 */

/** Order id (16), digest (32), id of the replaced order (16, or zeros): the part of an order that its closed record keeps. */
export const IDENTITY_BYTES = 64
export const ID_BYTES = 16
export const DIGEST_BYTES = 32

export const DIGEST_AT = 0
export const NONCE_AT = 32
export const LOTS_AT = 40
/** 48 bits, as are the arrival slot and the seq. */
export const EXPIRY_SLOT_AT = 48
export const ARRIVAL_SLOT_AT = 54
export const SEQ_AT = 60
export const INSTRUMENT_AT = 66
/** Index of the trading key. */
export const KEY_AT = 68
/** Handle of the note that backs the remainder. */
export const COLLATERAL_AT = 72
/** First cell and number of the anchors. */
export const ANCHORS_AT = 76
export const ANCHOR_COUNT_AT = 114
/** Number of the shared text, 0 = none. */
export const ORIGIN_AT = 80
/** Cell with the id of the replaced order, 0 = none. */
export const REPLACES_AT = 84
export const ALL_LINKS_AT = 88
export const KEY_LINKS_AT = 96
export const EXPIRY_LINKS_AT = 104
/** 0 = the row is free, else 1 + index of the status. */
export const STATUS_AT = 112
/** Bit 0: index of the side; bits 1 and 2: index of the type; bit 3: a fok order whose minimum fill is its whole amount. */
export const TERMS_AT = 113
/** Counts the orders this row has held, so that a stale reference is detected. */
export const LIFE_AT = 116
/** Basis points. */
export const FEE_AT = 118
export const ORDER_BYTES = 120

export const SIDES = ['buy', 'sell'] as const
export const TYPES = ['limit', 'ioc', 'fok'] as const
export const LIVE_STATUSES = ['accepted', 'partially_filled'] as const
export const WHOLE_OR_NOTHING = 8

const WIDTH = 32
/** Handle of the next cell, 0 = none; then the anchor. */
const CELL_BYTES = 4 + WIDTH

export class AnchorCells {
  private readonly cells = new RowSlab(CELL_BYTES)

  /** Cells in use. */
  get size(): number {
    return this.cells.size
  }

  /** Allocates for `count` anchors. */
  reserve(count: number): void {
    this.cells.reach(count)
  }

  /**
   * Stores a new chain and returns its first cell.
   * @param anchors at least one, 32 bytes each
   */
  add(anchors: readonly Uint8Array[]): number {
    let first = 0
    for (let index = anchors.length - 1; index >= 0; index--) {
      const cell = this.cells.take()
      const { bytes, view } = this.cells.chunkOf(cell)
      const at = this.cells.placeOf(cell)
      view.setUint32(at, first, true)
      copyBytes(anchors[index]!, 0, bytes, at + 4, WIDTH)
      first = cell
    }
    return first
  }

  /** A copy of the anchor at an index of the chain. */
  read(first: number, index: number): Uint8Array {
    let cell = first
    for (let steps = index; steps > 0; steps--) cell = this.next(cell)
    const at = this.cells.placeOf(cell) + 4
    return this.cells.bytesOf(cell).slice(at, at + WIDTH)
  }

  /** Writes all anchors of a chain. */
  encode(to: ByteWriter, first: number): void {
    for (let cell = first; cell !== 0; cell = this.next(cell)) {
      to.copy(this.cells.bytesOf(cell), this.cells.placeOf(cell) + 4, WIDTH)
    }
  }

  remove(first: number): void {
    for (let cell = first; cell !== 0; ) {
      const next = this.next(cell)
      const at = this.cells.placeOf(cell)
      this.cells.bytesOf(cell).fill(0, at, at + CELL_BYTES)
      this.cells.give(cell)
      cell = next
    }
  }

  private next(cell: number): number {
    return this.cells.chunkOf(cell).view.getUint32(this.cells.placeOf(cell), true)
  }
}

/** The part of an order in one settlement batch. */
export type FillRecord = {
  readonly account: Account
  readonly order_id: Uint8Array
  readonly fill_index: number
  readonly symbol: string
  readonly side: Side
  readonly price: Price
  readonly amount: BaseUnits
  readonly quote_amount: QuoteUnits
  readonly fee: QuoteUnits
  readonly batch: number
  readonly settlement_batch: number
  readonly anchor_index: number
  readonly slot: SlotNumber
  /** Undefined when the fee consumes the proceeds. */
  readonly proceeds: Note | undefined
  readonly change: Note | undefined
  stage: FillStage
  /** base58, once signed bytes were sent. */
  signature: string | undefined
  /** Event number of its newest event; 0 before it is hashed. */
  seq: EventSeq
}

type LiveStatus = (typeof LIVE_STATUSES)[number]

/** The fields of a live order. Its bytes are copied when the order is stored. */
export type OrderFacts = {
  /** 16 bytes. */
  order_id: Uint8Array
  key: TradingKey
  instrument: InstrumentState
  side: Side
  type: OrderType
  lots: Lots
  ticks: Ticks
  min_lots: Lots
  /** The instrument's fee when it was accepted: the note that backs it covers this fee. */
  fee_bps: number
  expiry_slot: SlotNumber
  arrival_slot: SlotNumber
  /** Number of the first auction it can take part in. */
  arrival_batch: number
  nonce: bigint
  /** 1 to 16 anchors of 32 bytes. */
  anchors: readonly Uint8Array[]
  /** 32 bytes; distinguishes an identical resend from a taken id. */
  digest: Uint8Array
  /** Socket it came in on. */
  origin: string | undefined
  /** 16 bytes. */
  replaces: Uint8Array | undefined
  /** Event number of its `order.accepted`. */
  seq: EventSeq
  /** Not filled yet. */
  remaining: Lots
  status: LiveStatus
  /** The note that backs the remainder. */
  collateral: Note
  /** Undefined before the first fill. */
  traded: Traded | undefined
}

/** All fills, hashed or not, by fill index. */
type Traded = { cumulative_quote: QuoteUnits; cumulative_fee: QuoteUnits; readonly fills: FillRecord[] }

/** The objects that rows refer to by number. */
export type OrderContext = {
  readonly keys: readonly TradingKey[]
  readonly instruments: readonly InstrumentState[]
  readonly notes: Notes
  /** Stores columns of an order at the same handle; the row does not repeat them. */
  readonly pool: OrderPool
  readonly anchors: AnchorCells
  readonly origins: SharedTexts
  /** Ids of replaced orders, 16 bytes each, in separate cells because most orders replace none. */
  readonly replaced: RowSlab
  /** By handle; most orders have no fills. */
  readonly traded: Map<number, Traded>
}

const NO_FILLS: readonly FillRecord[] = []

/**
 * A reference to the row of a live order, valid during one command. References to one order are different objects with the
 * same handle. Members throw once the order has ended.
 */
export class Order {
  private readonly life: number
  private id_text: string | undefined

  constructor(
    readonly handle: number,
    readonly chunk: Chunk,
    private readonly place: number,
    private readonly context: OrderContext,
  ) {
    this.life = chunk.view.getUint16(place + LIFE_AT, true)
  }

  /** 16 bytes. */
  get id(): Uint8Array {
    this.at(0)
    return this.context.pool.orderId(this.handle)
  }

  /** The same in hex, cached. */
  get order_id(): string {
    this.id_text ??= this.id.toHex()
    return this.id_text
  }

  get digest(): Uint8Array {
    const at = this.at(DIGEST_AT)
    return this.chunk.bytes.slice(at, at + DIGEST_BYTES)
  }

  /** Hex. */
  get replaces(): string | undefined {
    const cell = this.u32(REPLACES_AT)
    if (cell === 0) return undefined
    const { replaced } = this.context
    const at = replaced.placeOf(cell)
    return replaced
      .bytesOf(cell)
      .slice(at, at + ID_BYTES)
      .toHex()
  }

  get has_replaced(): boolean {
    return this.u32(REPLACES_AT) !== 0
  }

  /** Copies the 64-byte identity (`IDENTITY_BYTES`). */
  readIdentity(into: Uint8Array): void {
    const { pool, replaced } = this.context
    copyBytes(this.chunk.bytes, this.at(DIGEST_AT), into, ID_BYTES, DIGEST_BYTES)
    copyBytes(pool.ids, this.handle * ID_BYTES, into, 0, ID_BYTES)
    const cell = this.u32(REPLACES_AT)
    const to = ID_BYTES + DIGEST_BYTES
    if (cell === 0) into.fill(0, to)
    else copyBytes(replaced.bytesOf(cell), replaced.placeOf(cell), into, to, ID_BYTES)
  }

  get key(): TradingKey {
    return this.context.keys[this.u32(KEY_AT)]!
  }

  get instrument(): InstrumentState {
    return this.context.instruments[this.chunk.view.getUint16(this.at(INSTRUMENT_AT), true)]!
  }

  get side(): Side {
    return SIDES[this.terms & 1]!
  }

  get type(): OrderType {
    return TYPES[(this.terms >> 1) & 3]!
  }

  get lots(): Lots {
    return this.chunk.view.getFloat64(this.at(LOTS_AT), true)
  }

  get ticks(): Ticks {
    this.at(0)
    return this.context.pool.tick[this.handle]!
  }

  get min_lots(): Lots {
    const { terms } = this
    if ((terms & WHOLE_OR_NOTHING) !== 0) return this.lots
    return this.type === 'fok' ? 0 : this.context.pool.minFill(this.handle)
  }

  get fee_bps(): number {
    return this.chunk.view.getUint16(this.at(FEE_AT), true)
  }

  get expiry_slot(): SlotNumber {
    return this.u48(EXPIRY_SLOT_AT)
  }

  get arrival_slot(): SlotNumber {
    return this.u48(ARRIVAL_SLOT_AT)
  }

  get arrival_batch(): number {
    this.at(0)
    return this.context.pool.arrival_batch[this.handle]!
  }

  get nonce(): bigint {
    return this.chunk.view.getBigUint64(this.at(NONCE_AT), true)
  }

  get seq(): EventSeq {
    return this.u48(SEQ_AT)
  }

  get origin(): string | undefined {
    const number = this.u32(ORIGIN_AT)
    return number === 0 ? undefined : this.context.origins.at(number)
  }

  get anchor_count(): number {
    return this.chunk.bytes[this.at(ANCHOR_COUNT_AT)]!
  }

  /** A copy of one anchor, 32 bytes. */
  anchor(index: number): Uint8Array {
    return this.context.anchors.read(this.u32(ANCHORS_AT), index)
  }

  /** Writes all anchors. */
  encodeAnchors(to: ByteWriter): void {
    this.context.anchors.encode(to, this.u32(ANCHORS_AT))
  }

  /** As in the book: 0 after the last fill, while the order is not closed yet. */
  get remaining(): Lots {
    this.at(0)
    return this.context.pool.remaining[this.handle]!
  }

  get status(): LiveStatus {
    return LIVE_STATUSES[this.chunk.bytes[this.at(STATUS_AT)]! - 1]!
  }

  set status(status: LiveStatus) {
    this.chunk.bytes[this.at(STATUS_AT)] = 1 + LIVE_STATUSES.indexOf(status)
  }

  get collateral(): Note {
    return this.context.notes.at(this.u32(COLLATERAL_AT))
  }

  /** Holds the new note and drops the old one. */
  set collateral(note: Note) {
    const { notes } = this.context
    const old = this.u32(COLLATERAL_AT)
    notes.hold(note)
    this.chunk.view.setUint32(this.at(COLLATERAL_AT), note.handle, true)
    notes.dropAt(old)
  }

  get cumulative_quote(): QuoteUnits {
    return this.context.traded.get(this.handle)?.cumulative_quote ?? 0n
  }

  get cumulative_fee(): QuoteUnits {
    return this.context.traded.get(this.handle)?.cumulative_fee ?? 0n
  }

  get fills(): readonly FillRecord[] {
    return this.context.traded.get(this.handle)?.fills ?? NO_FILLS
  }

  /** The mutable record of its fills, created on first use. */
  trading(): Traded {
    const { traded } = this.context
    let own = traded.get(this.handle)
    if (own === undefined) {
      own = { cumulative_quote: 0n, cumulative_fee: 0n, fills: [] }
      traded.set(this.handle, own)
    }
    return own
  }

  private get terms(): number {
    return this.chunk.bytes[this.at(TERMS_AT)]!
  }

  private u48(offset: number): number {
    return readU48(this.chunk.view, this.at(offset))
  }

  private u32(offset: number): number {
    return this.chunk.view.getUint32(this.at(offset), true)
  }

  /** Offset of a field of the row in its chunk. */
  at(offset: number): number {
    if (this.chunk.view.getUint16(this.place + LIFE_AT, true) !== this.life)
      throw new Error('an order has ended that something still refers to')
    return this.place + offset
  }
}
