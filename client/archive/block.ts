/**
 * Encodes and verifies the blocks of an archive: the vault's events by transaction, each block chained to the one before by
 * SHA-256 (docs/archive.md). A hash proves integrity, not truth: the trees rebuilt from an archive are compared with the vault.
 */

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
import { ARCHIVE_BLOCK_BYTES } from '../limits'

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
export type ArchiveOf = { genesis_hash: string; program_id: string }

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
export type ArchiveBlock = Content & { hash: Uint8Array; bytes: Uint8Array }

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
export function decodeBlock(
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
export function inBlocks(transactions: readonly ArchivedTransaction[]): ArchivedTransaction[][] {
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
