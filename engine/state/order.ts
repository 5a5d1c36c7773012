/** Live orders as the rules see them. Quantities in lots, prices in ticks. */
import type { OrderType, Side } from '../../protocol/wire'
import type { TradingKey } from './account'
import type { AnchorCells } from './anchor_cells'
import type { ByteWriter } from './byte_stream'
import type { FillRecord } from './fill_record'
import type { InstrumentState } from './instrument'
import type { Note } from './note'
import type { Notes } from './notes'
import type { LiveStatus, Traded } from './order_facts'
import * as row from './order_row'
import type { Chunk } from './row_memory'
import type { SharedTexts } from './shared_texts'

/** What rows name by number. */
export type OrderContext = {
  readonly keys: readonly TradingKey[]
  readonly instruments: readonly InstrumentState[]
  readonly notes: Notes
  readonly anchors: AnchorCells
  readonly origins: SharedTexts
  /** By handle: most orders have traded nothing. */
  readonly traded: Map<number, Traded>
}

const NO_FILLS: readonly FillRecord[] = []

/**
 * A reference to the row of a live order, for the command at hand: two of one order differ as objects and have the same
 * handle. @throws Error once the order has ended.
 */
export class Order {
  private readonly life: number

  constructor(
    readonly handle: number,
    readonly chunk: Chunk,
    private readonly place: number,
    private readonly context: OrderContext,
  ) {
    this.life = chunk.view.getUint16(place + row.LIFE_AT, true)
  }

  /** Hex. */
  get order_id(): string {
    const at = this.at(0)
    return this.chunk.bytes.slice(at, at + row.DIGEST_AT).toHex()
  }

  /** Hex. */
  get digest(): string {
    return this.identity.subarray(row.DIGEST_AT, row.REPLACES_AT).toHex()
  }

  /** Hex. */
  get replaces(): string | undefined {
    return this.has_replaced ? this.identity.subarray(row.REPLACES_AT).toHex() : undefined
  }

  get has_replaced(): boolean {
    return (this.terms & row.REPLACES) !== 0
  }

  /** Id, digest and id replaced; bytes of the row itself, which must not be written or kept. */
  get identity(): Uint8Array {
    const at = this.at(0)
    return this.chunk.bytes.subarray(at, at + row.IDENTITY_BYTES)
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

  get lots(): number {
    return this.number(row.LOTS_AT)
  }

  get ticks(): number {
    return this.u32(row.TICKS_AT)
  }

  get min_lots(): number {
    return this.number(row.MIN_LOTS_AT)
  }

  get expiry_slot(): number {
    return this.number(row.EXPIRY_SLOT_AT)
  }

  get arrival_slot(): number {
    return this.number(row.ARRIVAL_SLOT_AT)
  }

  get arrival_batch(): number {
    return this.u32(row.ARRIVAL_BATCH_AT)
  }

  get nonce(): bigint {
    return this.chunk.view.getBigUint64(this.at(row.NONCE_AT), true)
  }

  get seq(): number {
    return this.number(row.SEQ_AT)
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

  /** All anchors, one after the other. */
  encodeAnchors(to: ByteWriter): void {
    this.context.anchors.encode(to, this.u32(row.ANCHORS_AT))
  }

  get remaining(): number {
    return this.number(row.REMAINING_AT)
  }

  set remaining(lots: number) {
    this.chunk.view.setFloat64(this.at(row.REMAINING_AT), lots, true)
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

  /** The new note is held and the old one is not any more. */
  set collateral(note: Note) {
    const { notes } = this.context
    const old = this.collateral
    notes.hold(note)
    this.chunk.view.setUint32(this.at(row.COLLATERAL_AT), note.handle, true)
    notes.drop(old)
  }

  get cumulative_quote(): bigint {
    return this.context.traded.get(this.handle)?.cumulative_quote ?? 0n
  }

  get cumulative_fee(): bigint {
    return this.context.traded.get(this.handle)?.cumulative_fee ?? 0n
  }

  get fills(): readonly FillRecord[] {
    return this.context.traded.get(this.handle)?.fills ?? NO_FILLS
  }

  /** What it traded so far, to be added to. */
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

  private number(offset: number): number {
    return this.chunk.view.getFloat64(this.at(offset), true)
  }

  private u32(offset: number): number {
    return this.chunk.view.getUint32(this.at(offset), true)
  }

  /** Where a field of the row lies in its chunk. */
  at(offset: number): number {
    if (this.chunk.view.getUint16(this.place + row.LIFE_AT, true) !== this.life)
      throw new Error('an order has ended that something still refers to')
    return this.place + offset
  }
}
