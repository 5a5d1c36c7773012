/** Rows of one width in chunks of bytes, a free list over them, lists that link them, and 48-bit integers in rows. */

const U32_RANGE = 0x1_0000_0000
const U16_RANGE = 0x1_0000

/** Slots, seqs and batch numbers are stored as 48-bit little-endian integers. */
export function readU48(view: DataView, at: number): number {
  return view.getUint32(at, true) + view.getUint16(at + 4, true) * U32_RANGE
}

/** @throws RangeError beyond 48 bits, which slots take millions of years to reach */
export function writeU48(view: DataView, at: number, value: number): void {
  if (!(value >= 0 && value < U16_RANGE * U32_RANGE))
    throw new RangeError('a slot, seq or batch beyond 48 bits')
  // Whole numbers: a caller that passes a fraction to a view is never compiled for good.
  view.setUint32(at, value >>> 0, true)
  view.setUint16(at + 4, Math.floor(value / U32_RANGE), true)
}

const CHUNK_SHIFT = 10
const CHUNK_ROWS = 1 << CHUNK_SHIFT
/** One chunk in advance per this many existing ones. Memory that is not written yet costs little. */
const CHUNKS_PER_CHUNK_AHEAD = 16

/** Bytes and a view of the same bytes. A chunk is never moved or freed while its owner lives. */
export type Chunk = { readonly bytes: Uint8Array; readonly view: DataView }

export function newChunk(bytes: number): Chunk {
  // Buffer first: the engine would otherwise create it on the first use of `.buffer` and move the array's bytes.
  const buffer = new ArrayBuffer(bytes)
  return { bytes: new Uint8Array(buffer), view: new DataView(buffer) }
}

/**
 * Rows in chunks: growth adds a chunk and copies nothing, so it causes no pause. A row is named by its handle, an integer
 * from 1 on; 0 = none. New rows are all zeros.
 */
export class RowMemory {
  private readonly chunks: Chunk[] = []

  constructor(private readonly row_bytes: number) {}

  /**
   * Allocates all rows up to `handle`. Large tables over-allocate by 1/16: chunk objects are never freed, and one
   * allocated among short-lived garbage pins its heap block.
   */
  reach(handle: number): void {
    const { chunks } = this
    const needed = (handle >>> CHUNK_SHIFT) + 1
    if (chunks.length >= needed) return
    const count = needed + Math.floor(chunks.length / CHUNKS_PER_CHUNK_AHEAD)
    while (chunks.length < count) chunks.push(newChunk(CHUNK_ROWS * this.row_bytes))
  }

  /** The chunk that contains a row; the row must have been reached. */
  chunkOf(handle: number): Chunk {
    return this.chunks[handle >>> CHUNK_SHIFT]!
  }

  bytesOf(handle: number): Uint8Array {
    return this.chunkOf(handle).bytes
  }

  /** Offset of the row in its chunk. */
  placeOf(handle: number): number {
    return (handle & (CHUNK_ROWS - 1)) * this.row_bytes
  }
}

/**
 * Rows that are allocated and released; the row released last is reused first, which keeps memory small. Rows have at least
 * 4 bytes: in a free row those hold the handle of the next free one. The slab touches no other bytes of a row.
 */
export class RowSlab extends RowMemory {
  private free = 0
  private fresh = 1
  /** Allocated rows. */
  size = 0

  /** Allocates a row. Its first 4 bytes are zero; the others are as they were when it was released. */
  take(): number {
    this.size++
    const handle = this.free
    if (handle === 0) {
      this.reach(this.fresh)
      return this.fresh++
    }
    const { view } = this.chunkOf(handle)
    const at = this.placeOf(handle)
    this.free = view.getUint32(at, true)
    view.setUint32(at, 0, true)
    return handle
  }

  /** Releases a row; its handle is invalid afterwards. */
  give(handle: number): void {
    this.chunkOf(handle).view.setUint32(this.placeOf(handle), this.free, true)
    this.free = handle
    this.size--
  }

  /** Above every handle allocated so far. */
  get end(): number {
    return this.fresh
  }
}

/** The ends of one list; 0 = empty. */
export type HandleList = { first: number; last: number }

export function newList(): HandleList {
  return { first: 0, last: 0 }
}

/**
 * The links of one kind of list. A row is in at most one list of a kind; it stores the handles of its neighbours in the
 * 8 bytes at `next_at`.
 */
export class HandleLinks {
  private readonly before_at: number

  constructor(
    private readonly rows: RowMemory,
    private readonly next_at: number,
  ) {
    this.before_at = next_at + 4
  }

  append(list: HandleList, handle: number): void {
    this.set(handle, this.next_at, 0)
    this.set(handle, this.before_at, list.last)
    if (list.last === 0) list.first = handle
    else this.set(list.last, this.next_at, handle)
    list.last = handle
  }

  remove(list: HandleList, handle: number): void {
    const next = this.next(handle)
    const before = this.get(handle, this.before_at)
    if (next === 0) list.last = before
    else this.set(next, this.before_at, before)
    if (before === 0) list.first = next
    else this.set(before, this.next_at, next)
  }

  /** The next row of the list; 0 = none. */
  next(handle: number): number {
    return this.get(handle, this.next_at)
  }

  private get(handle: number, at: number): number {
    return this.rows.chunkOf(handle).view.getUint32(this.rows.placeOf(handle) + at, true)
  }

  private set(handle: number, at: number, value: number): void {
    this.rows.chunkOf(handle).view.setUint32(this.rows.placeOf(handle) + at, value, true)
  }
}
