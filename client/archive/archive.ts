/** Encodes the blocks of an archive, each chained to the one before; reads and extends one in a folder, or reads a mirror. */

import { existsSync, mkdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { concatBytes, equalBytes } from '../../protocol/bytes'
import {
  domain,
  fixed,
  list,
  mapped,
  sized,
  struct,
  tryDecode,
  u8,
  u16,
  u32,
  uint,
  type ValueOf,
} from '../../protocol/codec'
import { sha256 } from '../../protocol/sha256'
import { TacitError } from '../../protocol/tacit_error'
import { ARCHIVE_BLOCK_BYTES, ARCHIVE_BLOCK_BYTES_MAX, ARCHIVE_BYTES_MAX, ARCHIVE_CALL_MS } from '../limits'
import { writeWhole } from '../whole_file'

/** Reads an archive from a folder or a mirror up to its first block that is not whole; extends one in a folder. Bun and Node. */

export class Archive {
  readonly transactions: ArchivedTransaction[] = []
  private readonly blocks: Pick<ArchiveBlock, 'number' | 'hash' | 'through_slot'>[] = []
  /** The newest block, which grows until it is full. */
  private last: ArchiveBlock | undefined

  /** An empty archive; the first `extend` replaces existing blocks. @param where folder, or URL of a mirror */
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
      // A process that ends between two blocks leaves a valid archive up to the first of them.
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

/**
 * Encodes and verifies the blocks of an archive: the vault's events by transaction, each block chained to the one before by
 * SHA-256 (docs/archive.md). A hash proves integrity, not truth: the trees rebuilt from an archive are compared with the vault.
 */

const signature = mapped(fixed(64), encodeBase58, (text) => decodeBase58(text, 64)!)

const TRANSACTION = struct({
  /** Base58. */
  signature,
  slot: uint,
  /** Data of the inner instructions by which the program emitted its events, in order. */
  data: list(sized(u16), 255, u8),
})
export type ArchivedTransaction = ValueOf<typeof TRANSACTION>

const address = mapped(fixed(32), encodeBase58, (text) => decodeBase58(text, 32)!)
const OF = { genesis_hash: address, program_id: address }
/** Chain and vault of an archive, base58. */
type ArchiveOf = { genesis_hash: string; program_id: string }

const CONTENT = struct({
  head: domain('tacit/archive/v1'),
  ...OF,
  /** From 0. */
  number: u32,
  /** Hash of the block before, zeros in block 0. */
  previous: fixed(32),
  /** The archive has every transaction up to this slot that the node listed. */
  through_slot: uint,
  transactions: list(TRANSACTION, 0xffff_ffff, u32),
})
type Content = ValueOf<typeof CONTENT>
type ArchiveBlock = Content & { hash: Uint8Array; bytes: Uint8Array }

const HASH_BYTES = 32

/** The archive cannot be used; the message names the reason and the next step. */
export class ArchiveRejected extends TacitError {
  override readonly name = 'ArchiveRejected'
  readonly code = 'archive_rejected'
  constructor(finding: string) {
    super(finding, {})
  }
}

export const blockName = (number: number): string => `${String(number).padStart(8, '0')}.block`

/** A block that follows `before`; `undefined` for the first. */
export function encodeBlock(
  of: ArchiveOf,
  before: Pick<ArchiveBlock, 'number' | 'hash'> | undefined,
  rest: Pick<Content, 'through_slot' | 'transactions'>,
): ArchiveBlock {
  const place = { number: before === undefined ? 0 : before.number + 1, previous: before?.hash ?? NO_HASH }
  const content = { ...of, ...place, ...rest }
  const encoded = CONTENT.encode(content)
  const hash = sha256(encoded)
  return { ...content, hash, bytes: concatBytes(encoded, hash) }
}
const NO_HASH = new Uint8Array(HASH_BYTES)

/** Undefined unless the bytes are a whole block that follows `before`. @throws ArchiveRejected for one of another vault */
function decodeBlock(
  of: ArchiveOf,
  before: Pick<ArchiveBlock, 'number' | 'hash'> | undefined,
  bytes: Uint8Array,
): ArchiveBlock | undefined {
  if (bytes.length < HASH_BYTES) return undefined
  const [encoded, hash] = [bytes.subarray(0, -HASH_BYTES), bytes.subarray(-HASH_BYTES)]
  if (!equalBytes(sha256(encoded), hash)) return undefined
  const content = tryDecode(() => CONTENT.decode(encoded))
  if (content === undefined) return undefined
  if (content.genesis_hash !== of.genesis_hash || content.program_id !== of.program_id)
    throw new ArchiveRejected(
      `the archive is of vault ${content.program_id} on the chain with genesis ${content.genesis_hash}`,
    )
  const follows = content.number === (before?.number ?? -1) + 1
  if (!follows || !equalBytes(content.previous, before?.hash ?? NO_HASH)) return undefined
  return { ...content, hash, bytes }
}

/** Splits transactions so that no block has more than ARCHIVE_BLOCK_BYTES of them, unless one alone has; one block at least. */
function inBlocks(transactions: readonly ArchivedTransaction[]): ArchivedTransaction[][] {
  const blocks: ArchivedTransaction[][] = [[]]
  let room = ARCHIVE_BLOCK_BYTES
  for (const transaction of transactions) {
    const bytes = transaction.data.reduce((sum, { length }) => sum + 2 + length, 73)
    if (bytes > room && blocks.at(-1)!.length > 0) {
      blocks.push([])
      room = ARCHIVE_BLOCK_BYTES
    }
    blocks.at(-1)!.push(transaction)
    room -= bytes
  }
  return blocks
}
