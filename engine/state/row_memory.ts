/** Rows of one width in chunks of bytes: growing adds a chunk and copies nothing, so it takes no pause. */

const CHUNK_SHIFT = 12
const CHUNK_ROWS = 1 << CHUNK_SHIFT

/** Bytes and a view of the same bytes. They stay where they are for as long as the process lives. */
export type Chunk = { readonly bytes: Uint8Array; readonly view: DataView }

/** A row is named by its handle, a number from 1 on; 0 names none. New rows are all zeros. */
export class RowMemory {
  private readonly chunks: Chunk[] = []

  constructor(private readonly row_bytes: number) {}

  /** Makes memory for every row up to `handle`. */
  reach(handle: number): void {
    while (this.chunks.length <= handle >>> CHUNK_SHIFT) {
      const bytes = new Uint8Array(CHUNK_ROWS * this.row_bytes)
      this.chunks.push({ bytes, view: new DataView(bytes.buffer) })
    }
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
