/** Rows of one width in chunks of bytes, a free list over them, and 48-bit integers in rows. */

// Copies short runs of bytes: for ids and hashes that is faster than making a view of them first.

export function copyBytes(
  from: Uint8Array,
  from_at: number,
  to: Uint8Array,
  to_at: number,
  width: number,
): void {
  for (let at = 0; at < width; at++) to[to_at + at] = from[from_at + at]!
}

// Whole numbers of 48 bits in rows: slots, seqs and batches.

const HIGH = 0x1_0000_0000

export function readU48(view: DataView, at: number): number {
  return view.getUint32(at, true) + view.getUint16(at + 4, true) * HIGH
}

/** @throws RangeError beyond 48 bits: that many slots take millions of years */
export function writeU48(view: DataView, at: number, value: number): void {
  if (!(value >= 0 && value < 0x1_0000 * HIGH)) throw new RangeError('a slot, seq or batch beyond 48 bits')
  view.setUint32(at, value % HIGH, true)
  view.setUint16(at + 4, value / HIGH, true)
}

// Rows of one width in chunks of bytes: growing adds a chunk and copies nothing, so it takes no pause.

const CHUNK_SHIFT = 10
const CHUNK_ROWS = 1 << CHUNK_SHIFT
/** Chunks there are for each that is made ahead. Memory that is not written yet costs little. */
const CHUNKS_PER_CHUNK_AHEAD = 16

/** Bytes and a view of the same bytes. They stay where they are for as long as the process lives. */
export type Chunk = { readonly bytes: Uint8Array; readonly view: DataView }

/** The buffer first: asked of an array, it would be made by moving the array's bytes. */
export function newChunk(bytes: number): Chunk {
  const buffer = new ArrayBuffer(bytes)
  return { bytes: new Uint8Array(buffer), view: new DataView(buffer) }
}

/** A row is named by its handle, a number from 1 on; 0 names none. New rows are all zeros. */
export class RowMemory {
  private readonly chunks: Chunk[] = []

  constructor(private readonly row_bytes: number) {}

  /**
   * Makes memory for every row up to `handle`. Where there is much, some chunks ahead come with it: the objects that stand
   * for chunks live for ever, and each that is made alone among garbage keeps a block of the heap from being given back.
   */
  reach(handle: number): void {
    const { chunks } = this
    const needed = (handle >>> CHUNK_SHIFT) + 1
    if (chunks.length >= needed) return
    const count = needed + Math.floor(chunks.length / CHUNKS_PER_CHUNK_AHEAD)
    while (chunks.length < count) chunks.push(newChunk(CHUNK_ROWS * this.row_bytes))
  }

  /** The memory that holds a row; the row must have been reached. */
  chunkOf(handle: number): Chunk {
    return this.chunks[handle >>> CHUNK_SHIFT]!
  }

  bytesOf(handle: number): Uint8Array {
    return this.chunkOf(handle).bytes
  }

  /** Where the row begins in its chunk. */
  placeOf(handle: number): number {
    return (handle & (CHUNK_ROWS - 1)) * this.row_bytes
  }
}

// Rows that are taken and given back; what was given back last is taken first, so memory stays as small as it can.

/** A row must have at least 4 bytes: those of a free row name the next free one. Nothing else of it is touched here. */
export class RowSlab extends RowMemory {
  private free = 0
  private fresh = 1
  /** Rows that are taken. */
  size = 0

  /** The first 4 bytes of the row are zero; the others are as they were when it was given back. */
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

  /** The handle means nothing from now on. */
  give(handle: number): void {
    this.chunkOf(handle).view.setUint32(this.placeOf(handle), this.free, true)
    this.free = handle
    this.size--
  }

  /** Above every handle ever taken. */
  get end(): number {
    return this.fresh
  }
}
