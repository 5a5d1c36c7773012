/** Rows of one width in chunks of bytes: growing adds a chunk and copies nothing, so it takes no pause. */

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
