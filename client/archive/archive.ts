/** Reads an archive from a folder or a mirror up to its first block that is not whole; extends one in a folder. Bun and Node. */
import { existsSync, mkdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { ARCHIVE_BLOCK_BYTES, ARCHIVE_BLOCK_BYTES_MAX, ARCHIVE_BYTES_MAX, ARCHIVE_CALL_MS } from '../limits'
import { writeWhole } from '../whole_file'
import {
  type ArchiveBlock,
  type ArchivedTransaction,
  type ArchiveOf,
  ArchiveRejected,
  blockName,
  decodeBlock,
  encodeBlock,
  inBlocks,
} from './block'

export class Archive {
  readonly transactions: ArchivedTransaction[] = []
  private readonly blocks: Pick<ArchiveBlock, 'number' | 'hash' | 'through_slot'>[] = []
  /** The newest block, which grows until it is full. */
  private last: ArchiveBlock | undefined

  /** An empty archive; the first `extend` replaces what is there. @param where folder, or URL of a mirror */
  constructor(
    readonly where: string,
    private readonly of: ArchiveOf,
    /** Number of the first block that is torn or damaged: nothing from it on is used. */
    readonly damaged?: number,
  ) {}

  /**
   * Reads all blocks in order. A folder that is missing is an empty archive.
   * @throws ArchiveRejected for an archive of another vault, one that is too long, or a mirror that does not answer
   */
  static async load(where: string, of: ArchiveOf, bytes_max = ARCHIVE_BYTES_MAX): Promise<Archive> {
    const blocks: ArchiveBlock[] = []
    let room = bytes_max
    const read = isUrl(where) ? readMirror : readFolder
    let bytes: Uint8Array | undefined
    for (;;) {
      bytes = await read(where, blocks.length)
      room -= bytes?.length ?? 0
      if (room < 0) throw new ArchiveRejected(`${where} has more than ${bytes_max} bytes`)
      const block = bytes && decodeBlock(of, blocks.at(-1), bytes)
      if (block === undefined) break
      blocks.push(block)
    }
    const archive = new Archive(where, of, bytes && blocks.length)
    for (const block of blocks) {
      archive.add(block)
      archive.transactions.push(...block.transactions)
    }
    return archive
  }

  get block_count(): number {
    return this.blocks.length
  }
  /** Every transaction up to this slot is in the archive; -1 for an empty one. */
  get through_slot(): number {
    return this.blocks.at(-1)?.through_slot ?? -1
  }

  /**
   * Appends transactions; each written block is synced to disk and whole, whenever the process ends.
   * @param through_slot the archive has every transaction up to it
   */
  extend(fresh: readonly ArchivedTransaction[], through_slot: number): void {
    mkdirSync(this.where, { recursive: true })
    const { last } = this
    const grows = last !== undefined && last.bytes.length < ARCHIVE_BLOCK_BYTES
    const pending = grows ? [...last.transactions, ...fresh] : fresh
    if (grows) this.blocks.pop()
    const parts = inBlocks(pending)
    for (const [at, transactions] of parts.entries()) {
      // A process that ends between two blocks leaves what the first of them has.
      const reaches = at === parts.length - 1 ? through_slot : transactions.at(-1)!.slot
      const block = encodeBlock(this.of, this.blocks.at(-1), { through_slot: reaches, transactions })
      writeWhole(pathOf(this.where, block.number), block.bytes, 0o644)
      this.add(block)
    }
    this.transactions.push(...fresh)
    // Blocks of an earlier archive that this one replaced.
    for (let number = this.block_count; existsSync(pathOf(this.where, number)); number++)
      rmSync(pathOf(this.where, number))
  }

  private add(block: ArchiveBlock): void {
    const { number, hash, through_slot } = block
    this.blocks.push({ number, hash, through_slot })
    this.last = block
  }
}

/** The URL of a mirror's block has the same form. */
const pathOf = (where: string, number: number): string => `${where.replace(/\/$/, '')}/${blockName(number)}`
const isUrl = (where: string): boolean => /^https?:\/\//.test(where)

/** Undefined where the folder has no such block. @throws ArchiveRejected, or the system's error */
function readFolder(where: string, number: number): Uint8Array | undefined {
  const path = pathOf(where, number)
  const found = statSync(path, { throwIfNoEntry: false })
  if (found === undefined) return undefined
  if (!found.isFile()) throw new ArchiveRejected(`${path} is not a file`)
  if (found.size > ARCHIVE_BLOCK_BYTES_MAX) throw new ArchiveRejected(`${path} is longer than any block`)
  return readFileSync(path)
}

/** Undefined where the mirror has no such block. */
async function readMirror(where: string, number: number): Promise<Uint8Array | undefined> {
  const url = pathOf(where, number)
  const rejected = (finding: string) =>
    new ArchiveRejected(`${url} ${finding}: check --archive, or leave it out`)
  const bytes: Uint8Array[] = []
  let length = 0
  try {
    const answer = await fetch(url, { signal: AbortSignal.timeout(ARCHIVE_CALL_MS) })
    if (answer.status === 404) return undefined
    if (!answer.ok) throw rejected(`answers HTTP ${answer.status}`)
    for await (const part of answer.body ?? []) {
      length += part.length
      if (length > ARCHIVE_BLOCK_BYTES_MAX) throw rejected('is longer than any block')
      bytes.push(part)
    }
  } catch (error) {
    throw error instanceof ArchiveRejected ? error : rejected('does not answer, or not to the end')
  }
  return Buffer.concat(bytes)
}
