/**
 * Writes and reads the files of a store: rows of fixed width in blocks that are written once. A block is sealed under the
 * file's own random key with its number as the nonce, so each block that opens is the one that was written there.
 */
import { createCipheriv, createDecipheriv } from 'node:crypto'
import { join } from 'node:path'
import { disk, readSurely, readWhole, writeWhole } from '../journal/disk'
import { nonceOf } from '../journal/frame'
import { releaseBytes } from '../memory/idle_gc'

const TAG_BYTES = 16
export const BLOCK_BYTES = 4096
const PLAIN_BYTES = BLOCK_BYTES - TAG_BYTES

/** A file of the stores is missing, cut, or has other bytes than were written. */
export class StoreDamaged extends Error {
  override readonly name = 'StoreDamaged'

  constructor(
    message: string,
    private readonly path?: string,
  ) {
    super(message)
  }

  /** Renames the file, so that the next boot reads all of it, and rebuilds it if need be: its length alone would pass. */
  setAside(): void {
    if (this.path !== undefined && disk.exists(this.path)) disk.renameSync(this.path, asideName(this.path))
  }
}

export const asideName = (path: string): string => `${path}.damaged`

/** Rows of one width; a section begins with a block. */
export type Section = { readonly width: number; readonly rows: number }

export const rowsPerBlock = (width: number): number => Math.floor(PLAIN_BYTES / width)

export function blocksOf({ width, rows }: Section): number {
  return Math.ceil(rows / rowsPerBlock(width))
}

/** Writes sections one after the other and syncs the file; returns the number of rows of each. After an error no file is left. */
export function writePart(
  dir: string,
  { name, key }: { name: string; key: Uint8Array },
  sections: readonly { width: number; rows: Iterable<Uint8Array> }[],
): number[] {
  const path = join(dir, name)
  const fd = disk.createSync(path, 'wx')
  let number = 0
  const plain = new Uint8Array(PLAIN_BYTES)
  const sealed = new Uint8Array(BLOCK_BYTES)
  const flush = () => {
    const cipher = createCipheriv('aes-256-gcm', key, nonceOf(number))
    sealed.set(cipher.update(plain))
    cipher.final()
    sealed.set(cipher.getAuthTag(), PLAIN_BYTES)
    writeWhole(fd, sealed, BLOCK_BYTES, number++ * BLOCK_BYTES)
    plain.fill(0)
  }
  try {
    const counts = sections.map(({ width, rows }) => {
      const block_rows = rowsPerBlock(width)
      let count = 0
      for (const row of rows) {
        plain.set(row, (count % block_rows) * width)
        if (++count % block_rows === 0) flush()
      }
      if (count % block_rows > 0) flush()
      return count
    })
    disk.sync(fd)
    return counts
  } catch (error) {
    // It holds space that a full disk lacks.
    disk.rmSync(path)
    throw error
  } finally {
    disk.closeSync(fd)
  }
}

export class PartReader {
  private readonly fd: number
  private readonly path: string

  /** @throws StoreDamaged unless the file has exactly `blocks` */
  constructor(
    dir: string,
    name: string,
    private readonly key: Uint8Array,
    readonly blocks: number,
  ) {
    this.path = join(dir, name)
    try {
      this.fd = disk.openSync(this.path, 'r')
    } catch (error) {
      if ((error as { code?: string }).code === 'ENOENT') throw new StoreDamaged(`${this.path} is missing`)
      throw error
    }
    if (disk.size(this.path) === blocks * BLOCK_BYTES) return
    this.close()
    throw new StoreDamaged(`${this.path} has another length than when it was written`)
  }

  close(): void {
    disk.closeSync(this.fd)
  }

  /** The plaintext of a block. @throws StoreDamaged when the medium does not give it */
  block(number: number): Uint8Array {
    try {
      return readSurely(this.fd, () => this.openBlock(number))
    } catch {
      const what = `block ${number} of ${this.path} is not what was written: start again to rebuild it`
      throw new StoreDamaged(what, this.path)
    }
  }

  private openBlock(number: number): Uint8Array {
    const sealed = new Uint8Array(BLOCK_BYTES)
    readWhole(this.fd, sealed, number * BLOCK_BYTES)
    const opener = createDecipheriv('aes-256-gcm', this.key, nonceOf(number))
    opener.setAuthTag(sealed.subarray(PLAIN_BYTES))
    const plain = opener.update(sealed.subarray(0, PLAIN_BYTES))
    opener.final()
    releaseBytes(sealed)
    return plain
  }

  /** The rows of a section that begins at a block, in order; each is valid until the next is requested. */
  *rows(first_block: number, { width, rows }: Section): Generator<Uint8Array> {
    const block_rows = rowsPerBlock(width)
    for (let row = 0; row < rows; ) {
      const plain = this.block(first_block + row / block_rows)
      for (let at = 0; at < block_rows && row < rows; at++, row++)
        yield plain.subarray(at * width, (at + 1) * width)
    }
  }
}
