/**
 * Keeps the rows that have left the state on disk, in parts that a catalogue names. Catalogue and parts count from the record
 * in the journal that states the catalogue's hash; everything later is rebuilt by the replay.
 */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes, randomInt } from 'node:crypto'
import { join } from 'node:path'
import { equalBytes } from '../../protocol/bytes'
import { fixed, list, struct, uint } from '../../protocol/codec'
import { sha256 } from '../../protocol/sha256'
import type { Covered } from '../commands'
import { disk, isOfDisk, writeWhole } from '../journal/disk'
import { nonceOf } from '../journal/frame'
import { makeFolder, readOpened, syncFolder, uncache } from '../journal/segment_files'
import { LIMITS } from '../limits'
import { isOutlived } from '../machine/state/live_orders'
import { PAST_KINDS, type Past, type PastKind, queuesOf } from '../machine/state/past'
import type { State } from '../machine/state/state'
import { releaseBytes } from '../memory/idle_gc'
import {
  createPart,
  Entries,
  HASH_BYTES,
  mergeParts,
  newName,
  Part,
  type PartRow,
  part_row,
  partFile,
} from './part'
import { asideName, StoreDamaged } from './part_file'

/** Folder, and the journal's key. */
export type StoresAt = { dir: string; key: Uint8Array }

const CATALOGUE = struct({ seq: uint, hash_key: fixed(32), parts: list(part_row) })
const SALT_BYTES = 32
const COLLECT_EVERY = 32_768
const TAG_BYTES = 16
const KEPT_NAME = /^(?:(\d{16})\.catalogue|([0-9a-f]{16})\.part)$/
const UNFINISHED_NAME = 'catalogue.unfinished'
const catalogueName = (seq: number): string => `${String(seq).padStart(16, '0')}.catalogue`

export class Stores implements Past {
  /** Called with the error of a lookup that cannot be answered: only another start helps. */
  onDamage: (error: Error) => void = () => undefined
  /** Opened blocks, the one used last at the end. */
  private readonly blocks = new Map<string, Uint8Array>()
  /** Names of the files that were begun here. */
  private readonly written = new Set<string>()

  private constructor(
    private readonly where: StoresAt,
    /** Of the hashes in the index: clients choose keys, and must not be able to choose colliding ones. */
    private hash_key: Uint8Array,
    /** Oldest rows first. */
    private parts: readonly Part[],
  ) {}

  static empty(where: StoresAt): Stores {
    makeFolder(where.dir)
    return new Stores(where, new Uint8Array(randomBytes(32)), [])
  }

  /** The stores of the catalogue written at `seq`. @throws StoreDamaged unless it has the hash and its parts their lengths */
  static open(where: StoresAt, seq: number, catalogue_hash: Uint8Array): Stores {
    const { hash_key, parts } = readCatalogue(where, seq, catalogue_hash)
    return new Stores(where, hash_key, openParts(where.dir, parts))
  }

  /**
   * Whether `open` succeeds and, with `blocks`, whether every block has the bytes that were written. The files stay as they
   * are.
   */
  static areWhole(
    where: StoresAt,
    { seq, catalogue_hash }: { seq: number; catalogue_hash: Uint8Array },
    read: 'lengths' | 'blocks' = 'lengths',
  ): boolean {
    try {
      const stores = Stores.open(where, seq, catalogue_hash)
      try {
        if (read === 'blocks') stores.readBlocks(0, stores.blocks_total)
      } finally {
        stores.close()
      }
      return true
    } catch (error) {
      if (error instanceof StoreDamaged) return false
      throw error
    }
  }

  /**
   * The catalogues of a folder and of the snapshots `seqs`, and the parts that catalogues name, each with a function that
   * throws unless all its bytes are right. A snapshot is written after its catalogue and deleted before it, a catalogue after
   * its parts and before them: a missing file was not pruned.
   */
  static checks(where: StoresAt, seqs: readonly number[]): { name: string; verify(): void }[] {
    const { dir } = where
    const names = new Set(seqs.map(catalogueName))
    for (const file of disk.list(dir)) if (KEPT_NAME.exec(file)?.[1] !== undefined) names.add(file)
    const rows = new Map<string, PartRow>()
    const catalogues = [...names].map((name) => {
      let whole = false
      try {
        const catalogue = catalogueAt(where, Number.parseInt(name, 10))
        for (const row of catalogue?.parts ?? []) rows.set(row.name, row)
        whole = catalogue !== undefined
      } catch {
        // Of the disk: this catalogue alone cannot be verified.
      }
      const verify = () => {
        if (!whole) throw new StoreDamaged('a catalogue has other bytes than were written')
      }
      return { name, verify }
    })
    const parts = [...rows.values()].map((row) => ({
      name: partFile(row.name),
      verify() {
        // A lookup may have to read the medium.
        uncache(dir, partFile(row.name))
        readPart(dir, row)
      },
    }))
    return [...catalogues, ...parts]
  }

  /** Gives each part that is set aside its name back if all its bytes are right: the failure of the disk passed. */
  static judgeAside(where: StoresAt): void {
    const { dir } = where
    const files = disk.exists(dir) ? disk.list(dir) : []
    for (const file of files) {
      const [, seq] = KEPT_NAME.exec(file) ?? []
      for (const row of (seq === undefined ? undefined : catalogueAt(where, Number(seq)))?.parts ?? []) {
        const name = partFile(row.name)
        if (!disk.exists(join(dir, asideName(name))) || disk.exists(join(dir, name))) continue
        if (isWhole(dir, row, asideName(name))) disk.renameSync(join(dir, asideName(name)), join(dir, name))
      }
    }
  }

  get covered(): Covered {
    const ends = PAST_KINDS.map((kind) => [kind, this.parts.at(-1)?.range(kind).end ?? 0])
    return Object.fromEntries(ends) as Covered
  }

  indexOf(kind: PastKind, key: Uint8Array): number | undefined {
    const hash = this.hashOf(kind, key)
    for (let at = this.parts.length - 1; at >= 0; at--) {
      const found = this.parts[at]!.find(kind, hash, this.blockOf)
      if (found !== undefined) return found
    }
    return undefined
  }

  at(kind: PastKind, number: number): Uint8Array {
    const part = this.parts.find((one) => one.range(kind).first <= number && number < one.range(kind).end)
    if (part === undefined) throw new RangeError('no such row')
    return part.at(kind, number, this.blockOf)
  }

  /**
   * Appends the rows of the state before `covered` as a part, then merges parts of one level into one of the next, so that a
   * lookup passes few. The files are synced, their names with the catalogue (`write`).
   */
  extend(state: State, covered: Covered): void {
    const { covered: before } = this
    const ranges = PAST_KINDS.map((kind) => ({
      first: before[kind],
      end: Math.max(before[kind], covered[kind]),
    }))
    const rows = ranges.reduce((sum, { first, end }) => sum + end - first, 0)
    if (rows === 0) return
    const queues = queuesOf(state)
    const entries = new Entries(rows)
    for (const [at, kind] of PAST_KINDS.entries()) {
      const { first, end } = ranges[at]!
      for (const number of collecting(first, end))
        entries.add(this.hashOf(kind, queues[kind].at(number)), kind, number)
    }
    function* rowsOf(kind: PastKind): Generator<Uint8Array> {
      const { first, end } = ranges[PAST_KINDS.indexOf(kind)]!
      for (const number of collecting(first, end)) yield queues[kind].at(number)
    }
    const { dir } = this.where
    const fresh = createPart(dir, this.newPart(), { level: 0, ranges, rowsOf, entries: entries.sorted() })
    this.parts = [...this.parts, fresh]
    this.reading(() => this.merge(state))
  }

  /** Reads some blocks, others at each call, so that damage is noticed while a backup may still help. @throws StoreDamaged */
  scrub(): void {
    const { blocks_total } = this
    const count = Math.min(LIMITS.store_blocks_scrubbed, blocks_total)
    if (count > 0) this.reading(() => this.readBlocks(randomInt(blocks_total), count))
  }

  private merge(state: State): void {
    const { store_parts_per_level: step } = LIMITS
    for (;;) {
      const last = this.parts.slice(-step)
      if (last.length < step || last[0]!.row.level !== last.at(-1)!.row.level) return
      const finals_first =
        last[0] === this.parts[0] ? outlivedBefore(last, state) : last[0]!.range('finals').first
      const merged = mergeParts(this.where.dir, this.newPart(), last, finals_first)
      this.parts = [...this.parts.slice(0, -step), merged]
      for (const part of last) part.close()
    }
  }

  /** Writes the catalogue of the parts and returns its hash; it counts once the journal states that. */
  write(seq: number): Uint8Array {
    const { dir, key } = this.where
    const plain = CATALOGUE.encode({ seq, hash_key: this.hash_key, parts: this.parts.map(({ row }) => row) })
    const salt = new Uint8Array(randomBytes(SALT_BYTES))
    const cipher = createCipheriv('aes-256-gcm', catalogueKey(key, salt), nonceOf(0))
    const sealed = Buffer.concat([salt, cipher.update(plain), cipher.final(), cipher.getAuthTag()])
    const unfinished = join(dir, UNFINISHED_NAME)
    this.written.add(UNFINISHED_NAME).add(catalogueName(seq))
    const fd = disk.createSync(unfinished, 'w')
    try {
      writeWhole(fd, sealed, sealed.length, 0)
      disk.sync(fd)
    } finally {
      disk.closeSync(fd)
    }
    disk.renameSync(unfinished, join(dir, catalogueName(seq)))
    syncFolder(dir)
    return sha256(plain)
  }

  /** Replaces its catalogue by the one that another thread wrote. @throws StoreDamaged */
  follow(seq: number, catalogue_hash: Uint8Array): void {
    const { hash_key, parts } = readCatalogue(this.where, seq, catalogue_hash)
    const opened = openParts(this.where.dir, parts)
    this.close()
    this.hash_key = hash_key
    this.parts = opened
  }

  /** Deletes every file but the present parts, the catalogues of `seqs` and their parts. */
  prune(seqs: readonly number[]): void {
    const { dir } = this.where
    const names = new Set(this.parts.map(({ row }) => row.name))
    for (const seq of seqs) {
      for (const { name } of catalogueAt(this.where, seq)?.parts ?? []) names.add(name)
    }
    const unneeded = disk.list(dir).filter((file) => {
      const [, seq, name] = KEPT_NAME.exec(file) ?? []
      return seq === undefined ? name === undefined || !names.has(name) : !seqs.includes(Number(seq))
    })
    for (const file of cataloguesFirst(unneeded)) disk.rmSync(join(dir, file))
  }

  /**
   * Closes and deletes the files written here: their snapshot failed, so nothing names them, and the next attempt needs the
   * space.
   */
  discard(): void {
    this.close()
    for (const name of cataloguesFirst([...this.written])) disk.rmSync(join(this.where.dir, name))
  }

  close(): void {
    for (const part of this.parts) part.close()
    this.parts = []
  }

  /** The name is known before its file is there: a part may be written and yet not open. */
  private newPart(): string {
    const name = newName()
    this.written.add(partFile(name))
    return name
  }

  private hashOf(kind: PastKind, row: Uint8Array): Uint8Array {
    const key = row.subarray(0, kind === 'finals' ? 16 : 32)
    return sha256(this.hash_key, Uint8Array.of(PAST_KINDS.indexOf(kind)), key).subarray(0, HASH_BYTES)
  }

  private readonly blockOf = (part: Part, block: number): Uint8Array => {
    const name = `${part.row.name} ${block}`
    const plain = this.blocks.get(name) ?? this.reading(() => part.readBlock(block))
    this.blocks.delete(name)
    this.blocks.set(name, plain)
    if (this.blocks.size > LIMITS.store_blocks_max) this.blocks.delete(this.blocks.keys().next().value!)
    return plain
  }

  private get blocks_total(): number {
    return this.parts.reduce((sum, { blocks }) => sum + blocks, 0)
  }

  /** Reads `count` blocks of all parts from number `first` on; the first follows the last. */
  private readBlocks(first: number, count: number): void {
    for (let at = first; at < first + count; at++) {
      let number = at % this.blocks_total
      for (const part of this.parts) {
        if (number >= 0 && number < part.blocks) releaseBytes(part.readBlock(number))
        number -= part.blocks
      }
    }
  }

  /** A read that fails: the file does not count at the next start, and this process must end. */
  private reading<T>(read: () => T): T {
    try {
      return read()
    } catch (error) {
      if (error instanceof StoreDamaged) error.setAside()
      this.onDamage(error as Error)
      throw error
    }
  }
}

/** In the order of their deletion: no catalogue is left whose parts are gone. */
const cataloguesFirst = (files: readonly string[]): string[] =>
  files.toSorted((a, b) => Number(b.endsWith('.catalogue')) - Number(a.endsWith('.catalogue')))

/** Counts, and collects garbage regularly: hashes and views of rows would otherwise double the heap. */
function* collecting(first: number, end: number): Generator<number> {
  for (let number = first; number < end; number++) {
    if ((number + 1) % COLLECT_EVERY === 0) Bun.gc(true)
    yield number
  }
}

/** The first closed order of the oldest parts that has not outlived its body and the retention. */
function outlivedBefore(parts: readonly Part[], state: State): number {
  for (const part of parts) {
    let number = part.range('finals').first
    for (const row of part.rows('finals')) {
      if (!isOutlived(row, state)) return number
      number++
    }
  }
  return parts.at(-1)!.range('finals').end
}

/** Reads every block of a part. @throws StoreDamaged */
function readPart(dir: string, row: PartRow, file?: string): void {
  const part = new Part(dir, row, file)
  try {
    for (let block = 0; block < part.blocks; block++) releaseBytes(part.readBlock(block))
  } finally {
    part.close()
  }
}

function isWhole(dir: string, row: PartRow, file: string): boolean {
  try {
    readPart(dir, row, file)
    return true
  } catch (error) {
    if (error instanceof StoreDamaged) return false
    throw error
  }
}

function openParts(dir: string, rows: readonly Part['row'][]): Part[] {
  const parts: Part[] = []
  try {
    for (const row of rows) parts.push(new Part(dir, row))
    return parts
  } catch (error) {
    for (const part of parts) part.close()
    throw error
  }
}

function catalogueKey(key: Uint8Array, salt: Uint8Array): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', key, salt, 'tacit/stores/v1', 32))
}

function readCatalogue(where: StoresAt, seq: number, catalogue_hash: Uint8Array) {
  const catalogue = catalogueAt(where, seq)
  if (catalogue === undefined || !equalBytes(sha256(CATALOGUE.encode(catalogue)), catalogue_hash))
    throw new StoreDamaged('a catalogue of the stores is missing or is not the journaled one')
  return catalogue
}

/** Undefined when there is none or it does not open. @throws the error of a disk that does not give it */
function catalogueAt({ dir, key }: StoresAt, seq: number) {
  const name = catalogueName(seq)
  if (!disk.exists(join(dir, name))) return undefined
  try {
    return readOpened(dir, name, 0, Number.MAX_SAFE_INTEGER, (sealed) => {
      const salt = sealed.subarray(0, SALT_BYTES)
      const opener = createDecipheriv('aes-256-gcm', catalogueKey(key, salt), nonceOf(0))
      opener.setAuthTag(sealed.subarray(-TAG_BYTES))
      const plain = opener.update(sealed.subarray(SALT_BYTES, -TAG_BYTES))
      opener.final()
      return CATALOGUE.decode(new Uint8Array(plain))
    })
  } catch (error) {
    if (isOfDisk(error)) throw error
    return undefined
  }
}
