/** Defines references to live orders and the record of a fill. */
import type { ByteWriter } from '../../../protocol/byte_stream'
import { copyBytes } from '../../../protocol/bytes'
import type { BaseUnits, EventSeq, Lots, Price, QuoteUnits, SlotNumber, Ticks } from '../../../protocol/units'
import type { FillStage, OrderType, Side } from '../../../protocol/wire/trading'
import { type Chunk, type RowSlab, readU48 } from '../../memory/rows'
import type { SharedTexts } from '../../memory/texts'
import type { OrderPool } from '../book/order_pool'
import type { Account, TradingKey } from './account'
import type { AnchorCells } from './anchor_cells'
import type { InstrumentState } from './instrument'
import type { Note } from './note'
import type { Notes } from './notes'
import * as row from './order_row'

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

type LiveStatus = (typeof row.LIVE_STATUSES)[number]

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
  /** Of its instrument when it was accepted: the note that backs it covers this fee. */
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
    this.life = chunk.view.getUint16(place + row.LIFE_AT, true)
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
    const at = this.at(row.DIGEST_AT)
    return this.chunk.bytes.slice(at, at + row.DIGEST_BYTES)
  }

  /** Hex. */
  get replaces(): string | undefined {
    const cell = this.u32(row.REPLACES_AT)
    if (cell === 0) return undefined
    const { replaced } = this.context
    const at = replaced.placeOf(cell)
    return replaced
      .bytesOf(cell)
      .slice(at, at + row.ID_BYTES)
      .toHex()
  }

  get has_replaced(): boolean {
    return this.u32(row.REPLACES_AT) !== 0
  }

  /** Copies the 64-byte identity (`order_row.ts`). */
  readIdentity(into: Uint8Array): void {
    const { pool, replaced } = this.context
    copyBytes(this.chunk.bytes, this.at(row.DIGEST_AT), into, row.ID_BYTES, row.DIGEST_BYTES)
    copyBytes(pool.ids, this.handle * row.ID_BYTES, into, 0, row.ID_BYTES)
    const cell = this.u32(row.REPLACES_AT)
    const to = row.ID_BYTES + row.DIGEST_BYTES
    if (cell === 0) into.fill(0, to)
    else copyBytes(replaced.bytesOf(cell), replaced.placeOf(cell), into, to, row.ID_BYTES)
  }

  get key(): TradingKey {
    return this.context.keys[this.u32(row.KEY_AT)]!
  }

  get instrument(): InstrumentState {
    return this.context.instruments[this.chunk.view.getUint16(this.at(row.INSTRUMENT_AT), true)]!
  }

  get side(): Side {
    return row.SIDES[this.terms & 1]!
  }

  get type(): OrderType {
    return row.TYPES[(this.terms >> 1) & 3]!
  }

  get lots(): Lots {
    return this.chunk.view.getFloat64(this.at(row.LOTS_AT), true)
  }

  get ticks(): Ticks {
    this.at(0)
    return this.context.pool.tick[this.handle]!
  }

  get min_lots(): Lots {
    const { terms } = this
    if ((terms & row.WHOLE_OR_NOTHING) !== 0) return this.lots
    return this.type === 'fok' ? 0 : this.context.pool.minFill(this.handle)
  }

  get fee_bps(): number {
    return this.chunk.view.getUint16(this.at(row.FEE_AT), true)
  }

  get expiry_slot(): SlotNumber {
    return this.u48(row.EXPIRY_SLOT_AT)
  }

  get arrival_slot(): SlotNumber {
    return this.u48(row.ARRIVAL_SLOT_AT)
  }

  get arrival_batch(): number {
    this.at(0)
    return this.context.pool.arrival_batch[this.handle]!
  }

  get nonce(): bigint {
    return this.chunk.view.getBigUint64(this.at(row.NONCE_AT), true)
  }

  get seq(): EventSeq {
    return this.u48(row.SEQ_AT)
  }

  get origin(): string | undefined {
    const number = this.u32(row.ORIGIN_AT)
    return number === 0 ? undefined : this.context.origins.at(number)
  }

  get anchor_count(): number {
    return this.chunk.bytes[this.at(row.ANCHOR_COUNT_AT)]!
  }

  /** A copy of one anchor, 32 bytes. */
  anchor(index: number): Uint8Array {
    return this.context.anchors.read(this.u32(row.ANCHORS_AT), index)
  }

  /** Writes all anchors. */
  encodeAnchors(to: ByteWriter): void {
    this.context.anchors.encode(to, this.u32(row.ANCHORS_AT))
  }

  /** As in the book: 0 after the last fill, while the order is not closed yet. */
  get remaining(): Lots {
    this.at(0)
    return this.context.pool.remaining[this.handle]!
  }

  get status(): LiveStatus {
    return row.LIVE_STATUSES[this.chunk.bytes[this.at(row.STATUS_AT)]! - 1]!
  }

  set status(status: LiveStatus) {
    this.chunk.bytes[this.at(row.STATUS_AT)] = 1 + row.LIVE_STATUSES.indexOf(status)
  }

  get collateral(): Note {
    return this.context.notes.at(this.u32(row.COLLATERAL_AT))
  }

  /** Holds the new note and drops the old one. */
  set collateral(note: Note) {
    const { notes } = this.context
    const old = this.u32(row.COLLATERAL_AT)
    notes.hold(note)
    this.chunk.view.setUint32(this.at(row.COLLATERAL_AT), note.handle, true)
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
    return this.chunk.bytes[this.at(row.TERMS_AT)]!
  }

  private u48(offset: number): number {
    return readU48(this.chunk.view, this.at(offset))
  }

  private u32(offset: number): number {
    return this.chunk.view.getUint32(this.at(offset), true)
  }

  /** Offset of a field of the row in its chunk. */
  at(offset: number): number {
    if (this.chunk.view.getUint16(this.place + row.LIFE_AT, true) !== this.life)
      throw new Error('an order has ended that something still refers to')
    return this.place + offset
  }
}
