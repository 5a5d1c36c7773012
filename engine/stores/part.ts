/** Defines a part of the stores: consecutive rows of each kind, and the index that finds them by key. */
import { randomBytes } from 'node:crypto'
import { compareBytes } from '../../protocol/bytes'
import { fixed, hex, list, struct, uint, type ValueOf } from '../../protocol/codec'
import { SPENT_BYTES } from '../machine/state/batch'
import { ROW_BYTES } from '../machine/state/live_orders'
import { RETIRED_BYTES } from '../machine/state/note'
import { PAST_KINDS, type PastKind } from '../machine/state/past'
import { blocksOf, PartReader, rowsPerBlock, type Section, writePart } from './part_file'

const WIDTHS: Record<PastKind, number> = {
  leaves: 32,
  nullifiers: SPENT_BYTES,
  retired: RETIRED_BYTES,
  finals: ROW_BYTES,
}
/** An entry of the index: keyed hash of the row's key (16), place of its kind in `PAST_KINDS` (1), its number (6). */
export const HASH_BYTES = 16
const KIND_AT = 16
const NUMBER_AT = 17
const ENTRY_BYTES = 23

/** A range of row numbers; `end` is exclusive. */
const range = struct({ first: uint, end: uint })
/** A part as its catalogue describes it. `ranges` are in the order of `PAST_KINDS`; a merge of parts has a higher level. */
export const part_row = struct({
  name: hex(8),
  key: fixed(32),
  level: uint,
  ranges: list(range),
  entries: uint,
})
export type PartRow = ValueOf<typeof part_row>
type Range = ValueOf<typeof range>

/** Finds a block by its number, from a cache or from the file. */
export type BlockOf = (part: Part, block: number) => Uint8Array

export const partFile = (name: string): string => `${name}.part`

export class Part {
  private readonly reader: PartReader
  /** First block and size of the section of each kind, then of the index. */
  private readonly sections: { first_block: number; section: Section }[] = []

  /** @throws StoreDamaged when the file is missing or has another length */
  constructor(
    dir: string,
    readonly row: PartRow,
    file = partFile(row.name),
  ) {
    let first_block = 0
    const add = (section: Section) => {
      this.sections.push({ first_block, section })
      first_block += blocksOf(section)
    }
    for (const [at, kind] of PAST_KINDS.entries()) add({ width: WIDTHS[kind], rows: sizeOf(row.ranges[at]!) })
    add({ width: ENTRY_BYTES, rows: row.entries })
    this.reader = new PartReader(dir, file, row.key, first_block)
  }

  close(): void {
    this.reader.close()
  }

  get blocks(): number {
    return this.reader.blocks
  }

  readBlock(block: number): Uint8Array {
    return this.reader.block(block)
  }

  range(kind: PastKind): Range {
    return this.row.ranges[PAST_KINDS.indexOf(kind)]!
  }

  /** The row of a number in the part's range. */
  at(kind: PastKind, number: number, blockOf: BlockOf): Uint8Array {
    const { first_block, section } = this.sections[PAST_KINDS.indexOf(kind)]!
    const place = number - this.range(kind).first
    const block_rows = rowsPerBlock(section.width)
    const at = (place % block_rows) * section.width
    return blockOf(this, first_block + Math.floor(place / block_rows)).subarray(at, at + section.width)
  }

  /**
   * The number in the entry of a hash and kind. Hashes are uniform, so their values show roughly where an entry is: a lookup
   * reads two or three blocks at any size, and no index of the blocks is in memory.
   */
  find(kind: PastKind, hash: Uint8Array, blockOf: BlockOf): number | undefined {
    const { first_block, section } = this.sections.at(-1)!
    const wanted = leading(hash, 0)
    let [low, high] = [0, blocksOf(section) - 1]
    let [low_value, high_value] = [0, 2 ** 48]
    let found: number | undefined
    while (low <= high) {
      const share = (wanted - low_value) / Math.max(1, high_value - low_value)
      const guess = Math.min(high, low + Math.max(0, Math.floor(share * (high - low + 1))))
      const block = blockOf(this, first_block + guess)
      const rows = Math.min(rowsPerBlock(ENTRY_BYTES), section.rows - guess * rowsPerBlock(ENTRY_BYTES))
      const last = (rows - 1) * ENTRY_BYTES
      const past_last = compareAt(hash, block, last)
      if (compareAt(hash, block, 0) < 0) [high, high_value] = [guess - 1, leading(block, 0)]
      else if (past_last < 0) return findInBlock(block, rows, kind, hash)
      else {
        // The entries of one hash may go on in the next block, where the newer rows are.
        if (past_last === 0) found = findInBlock(block, rows, kind, hash)
        ;[low, low_value] = [guess + 1, leading(block, last)]
      }
    }
    return found
  }

  /** All rows of a kind, past the cache; each is valid until the next is requested. */
  rows(kind: PastKind): Generator<Uint8Array> {
    const { first_block, section } = this.sections[PAST_KINDS.indexOf(kind)]!
    return this.reader.rows(first_block, section)
  }

  entries(): Generator<Uint8Array> {
    const { first_block, section } = this.sections.at(-1)!
    return this.reader.rows(first_block, section)
  }
}

const sizeOf = ({ first, end }: Range): number => end - first

/** The first 48 bits, big-endian. */
function leading(bytes: Uint8Array, at: number): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset + at)
  return view.getUint32(0) * 0x1_0000 + view.getUint16(4)
}

function compareAt(hash: Uint8Array, block: Uint8Array, at: number): number {
  return compareBytes(hash, block.subarray(at, at + HASH_BYTES))
}

function findInBlock(block: Uint8Array, rows: number, kind: PastKind, hash: Uint8Array): number | undefined {
  // A key may repeat; the entries of one hash are sorted by number, and the newest row counts.
  for (let at = (rows - 1) * ENTRY_BYTES; at >= 0; at -= ENTRY_BYTES) {
    if (block[at + KIND_AT] === PAST_KINDS.indexOf(kind) && compareAt(hash, block, at) === 0)
      return numberOf(block.subarray(at))
  }
  return undefined
}

function numberOf(entry: Uint8Array): number {
  const view = new DataView(entry.buffer, entry.byteOffset)
  return view.getUint32(NUMBER_AT) * 0x1_0000 + view.getUint16(NUMBER_AT + 4)
}

/** Collects the entries of rows and sorts them by hash. */
export class Entries {
  private readonly bytes: Uint8Array
  private count = 0

  constructor(rows: number) {
    this.bytes = new Uint8Array(rows * ENTRY_BYTES)
  }

  add(hash: Uint8Array, kind: PastKind, number: number): void {
    const at = this.count++ * ENTRY_BYTES
    this.bytes.set(hash, at)
    const view = new DataView(this.bytes.buffer, at)
    view.setUint8(KIND_AT, PAST_KINDS.indexOf(kind))
    view.setUint32(NUMBER_AT, Math.floor(number / 0x1_0000))
    view.setUint16(NUMBER_AT + 4, number % 0x1_0000)
  }

  *sorted(): Generator<Uint8Array> {
    const { bytes, count } = this
    const entryAt = (place: number) => bytes.subarray(place * ENTRY_BYTES, (place + 1) * ENTRY_BYTES)
    const values = Float64Array.from({ length: count }, (_, place) => leading(bytes, place * ENTRY_BYTES))
    const places = Uint32Array.from({ length: count }, (_, place) => place)
    places.sort((a, b) => values[a]! - values[b]! || compareBytes(entryAt(a), entryAt(b)))
    for (const place of places) yield entryAt(place)
  }
}

type NewPart = {
  level: number
  ranges: readonly Range[]
  rowsOf: (kind: PastKind) => Iterable<Uint8Array>
  entries: Iterable<Uint8Array>
}

export const newName = (): string => randomBytes(8).toString('hex')

/** Writes and syncs the file of a part; the folder, and the file after an error, are left to the caller. */
export function createPart(dir: string, name: string, { level, ranges, rowsOf, entries }: NewPart): Part {
  const key = new Uint8Array(randomBytes(32))
  const sections = PAST_KINDS.map((kind) => ({ width: WIDTHS[kind], rows: rowsOf(kind) }))
  const counts = writePart(dir, { name: partFile(name), key }, [
    ...sections,
    { width: ENTRY_BYTES, rows: entries },
  ])
  return new Part(dir, { name, key, level, ranges: [...ranges], entries: counts.at(-1)! })
}

/** One part of the rows of several consecutive ones, from `finals_first` on for closed orders. */
export function mergeParts(dir: string, name: string, parts: readonly Part[], finals_first: number): Part {
  const ranges = PAST_KINDS.map((kind) => ({
    first: kind === 'finals' ? finals_first : parts[0]!.range(kind).first,
    end: parts.at(-1)!.range(kind).end,
  }))
  function* rowsOf(kind: PastKind): Generator<Uint8Array> {
    const first = ranges[PAST_KINDS.indexOf(kind)]!.first
    for (const part of parts) {
      let number = part.range(kind).first
      for (const row of part.rows(kind)) if (number++ >= first) yield row
    }
  }
  return createPart(dir, name, {
    level: parts[0]!.row.level + 1,
    ranges,
    rowsOf,
    entries: mergedEntries(parts, finals_first),
  })
}

function* mergedEntries(parts: readonly Part[], finals_first: number): Generator<Uint8Array> {
  const finals = PAST_KINDS.indexOf('finals')
  let heads = parts.map((part) => {
    const entries = part.entries()
    return { entries, entry: entries.next() }
  })
  for (;;) {
    heads = heads.filter(({ entry }) => !entry.done)
    const [first, ...others] = heads
    if (first === undefined) return
    let least = first
    for (const head of others) if (compareBytes(head.entry.value!, least.entry.value!) < 0) least = head
    const entry = least.entry.value as Uint8Array
    if (entry[KIND_AT] !== finals || numberOf(entry) >= finals_first) yield entry
    least.entry = least.entries.next()
  }
}
