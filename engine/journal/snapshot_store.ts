/** Stores snapshot files: encrypted in pieces, bound to their journal position, published by rename. */

import { createDecipheriv, createHash, hkdfSync, randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { utf8 } from '../../protocol/bytes'
import { constant, fixed, struct, uint, type ValueOf } from '../../protocol/codec'
import type { ChainPoint } from '../../protocol/units'
import { releaseBytes } from '../memory/idle_gc'
import { type DiskFile, disk, isOfDisk, writeFileWhole } from './disk'
import { nonceOf } from './frame'
import { makeFolder, readOpened, syncFolder, uncache } from './segment_files'

/** At the place in the journal after whose records the state is. */
export type Snapshot = ChainPoint & {
  /** SHA-256 of the state's bytes. */
  state_hash: Uint8Array
  /**
   * The bytes in blocks, each authenticated again as it is read and valid until the next one is requested.
   * @throws Error when the file changed since it was opened
   */
  blocks(): Generator<Uint8Array>
}
/** The hash that the journal states for a snapshot at this place, undefined for none: such a file does not count. */
type JournaledHash = (point: ChainPoint) => Promise<Uint8Array | undefined>
export interface SnapshotStore {
  /**
   * Encrypts, writes, syncs and publishes by rename; resolves with the state's hash. Encryption is asynchronous, in pieces,
   * so the blocks must not change until then.
   * @param blocks of any length; iterated twice, because their total length precedes them in the file
   * @param newest seq of the newest snapshot that counts: later ones were never journaled, and are deleted. The others stay until
   * the journal names this one (`prune`)
   */
  writeSnapshot(
    point: ChainPoint,
    blocks: () => Iterable<Uint8Array>,
    newest: number | undefined,
  ): Promise<Uint8Array>
  /** Deletes every snapshot but those of `seqs`. */
  prune(seqs: readonly number[]): Promise<void>
  /** Frees the space of a snapshot that a process which was killed had begun. No thread may be writing one. */
  removeUnfinished(): Promise<void>
  /** The newest snapshot with seq <= `seq_max` that has its journaled hash. `rejected` names the newer files. */
  newestValid(
    hashOf: JournaledHash,
    seq_max?: number,
  ): Promise<{ snapshot: Snapshot | undefined; rejected: string[] }>
  /** Journal seqs of the stored snapshots, newest first. */
  seqs(): number[]
  /** Authenticates every piece, independently of the hash in the journal. @throws Error for a damaged snapshot */
  verify(seq: number): void
}

const SNAPSHOT_NAME = /^(\d{16})\.snapshot$/
const UNFINISHED_NAME = 'snapshot.unfinished'
/** The associated data of each piece. */
const HEADER = struct({
  magic: constant(utf8('TACITS01')),
  seq: uint,
  /** Of the state. */
  bytes: uint,
  head: fixed(32),
  salt: fixed(32),
})
type Header = ValueOf<typeof HEADER>
const HEADER_BYTES = HEADER.size!
const PIECE_BYTES = 1024 * 1024
const TAG_BYTES = 16

/**
 * @param key 32 bytes, the journal's
 * @throws RangeError for a key of another length
 */
export function openSnapshotStore({ dir, key }: { dir: string; key: Uint8Array }): SnapshotStore {
  if (key.length !== 32) throw new RangeError('the snapshot key has 32 bytes')
  makeFolder(dir)
  const names = () => namesIn(dir)
  const remove = async (isUnneeded: (seq: number) => boolean) => {
    for (const name of names()) if (isUnneeded(seqOf(name))) await disk.rm(join(dir, name))
  }
  return {
    async writeSnapshot({ seq, head }, blocks, newest = 0) {
      let bytes = 0
      for (const block of blocks()) bytes += block.length
      const header = { seq, bytes, head, salt: new Uint8Array(randomBytes(32)) }
      const unfinished = join(dir, UNFINISHED_NAME)
      const file = await disk.create(unfinished)
      let state_hash: Uint8Array
      try {
        state_hash = await writePieces(file, header, key, inPieces(blocks()))
        await file.sync()
      } catch (error) {
        // It holds space that a full disk lacks.
        await disk.rm(unfinished)
        throw error
      } finally {
        await file.close()
      }
      await disk.rename(unfinished, join(dir, snapshotName(seq)))
      syncFolder(dir)
      await remove((one) => one > newest && one !== seq)
      return state_hash
    },
    prune: (seqs) => remove((one) => !seqs.includes(one)),
    removeUnfinished: () => disk.rm(join(dir, UNFINISHED_NAME)),
    async newestValid(hashOf, seq_max = Number.MAX_SAFE_INTEGER) {
      const rejected: string[] = []
      const find = async (name: string) => {
        const header = readHeader(dir, name)
        const state_hash = header && (await hashOf(header))
        return state_hash && openSnapshot(dir, name, key, header, state_hash)
      }
      for (const name of names().filter((one) => seqOf(one) <= seq_max)) {
        let snapshot = await find(name)
        if (snapshot === undefined) {
          uncache(dir, name)
          snapshot = await find(name)
        }
        if (snapshot !== undefined) return { snapshot, rejected }
        rejected.push(name)
      }
      return { snapshot: undefined, rejected }
    },
    seqs: () => names().map(seqOf),
    verify(seq) {
      const name = snapshotName(seq)
      const check = () => {
        // A start reads the medium, not the cache.
        uncache(dir, name)
        const header = readHeader(dir, name)
        if (header === undefined) throw new Error('the snapshot has no valid header')
        for (const _ of readPieces(dir, name, key, header, undefined));
      }
      try {
        check()
      } catch {
        check()
      }
    },
  }
}

/** Newest first. */
const namesIn = (dir: string): string[] =>
  disk
    .list(dir)
    .filter((name) => SNAPSHOT_NAME.test(name))
    .sort()
    .reverse()
export const snapshotName = (seq: number): string => `${String(seq).padStart(16, '0')}.snapshot`
const seqOf = (name: string): number => Number(SNAPSHOT_NAME.exec(name)![1])

/** The salt gives each file its own key, so the piece number is a nonce used once; the header fixes the piece count. */
function pieceKey(key: Uint8Array, { salt }: Header): Uint8Array<ArrayBuffer> {
  return new Uint8Array(hkdfSync('sha256', key, salt, 'tacit/snapshot/v1', 32))
}

/** An empty state has one piece, so a header alone is never a valid snapshot. */
const pieceCount = (bytes: number): number => Math.max(1, Math.ceil(bytes / PIECE_BYTES))

/** Regroups blocks into pieces of PIECE_BYTES, the last one shorter; each is valid until the next is requested. */
function* inPieces(blocks: Iterable<Uint8Array>): Generator<Uint8Array<ArrayBuffer>> {
  const piece = new Uint8Array(PIECE_BYTES)
  let filled = 0
  for (const block of blocks) {
    for (let at = 0; at < block.length; ) {
      if (filled === PIECE_BYTES) {
        yield piece
        filled = 0
      }
      const part = block.subarray(at, at + PIECE_BYTES - filled)
      piece.set(part, filled)
      filled += part.length
      at += part.length
    }
  }
  yield piece.subarray(0, filled)
}

/** Returns the hash of the state. crypto.subtle encrypts off this thread; the event loop runs between pieces. */
async function writePieces(
  file: DiskFile,
  header: Header,
  key: Uint8Array,
  pieces: Iterable<Uint8Array<ArrayBuffer>>,
): Promise<Uint8Array> {
  const piece_key = await crypto.subtle.importKey('raw', pieceKey(key, header), 'AES-GCM', false, ['encrypt'])
  const additionalData = HEADER.encode(header)
  await writeFileWhole(file, additionalData, additionalData.length, null)
  let written = HEADER_BYTES
  let piece = 0
  const hasher = createHash('sha256')
  for (const plain of pieces) {
    hasher.update(plain)
    const how = { name: 'AES-GCM', iv: nonceOf(piece++), additionalData, tagLength: TAG_BYTES * 8 }
    const sealed = new Uint8Array(await crypto.subtle.encrypt(how, piece_key, plain))
    await writeFileWhole(file, sealed, sealed.length, null)
    written += sealed.length
  }
  if (written !== fileBytes(header)) throw new Error('a state changed while its snapshot was written')
  return new Uint8Array(hasher.digest())
}

function fileBytes({ bytes }: Header): number {
  return HEADER_BYTES + bytes + pieceCount(bytes) * TAG_BYTES
}

/**
 * Each piece is valid until the next is requested.
 * @throws Error when a piece is missing or does not authenticate, and at the end when the state has another hash
 */
function* readPieces(
  dir: string,
  name: string,
  key: Uint8Array,
  header: Header,
  state_hash: Uint8Array | undefined,
): Generator<Uint8Array> {
  const piece_key = pieceKey(key, header)
  const associated = HEADER.encode(header)
  const hasher = createHash('sha256')
  for (let piece = 0, at = HEADER_BYTES; piece < pieceCount(header.bytes); piece++) {
    const length = Math.min(PIECE_BYTES, header.bytes - piece * PIECE_BYTES)
    const plain = readOpened(dir, name, at, length + TAG_BYTES, (sealed) => {
      const opener = createDecipheriv('aes-256-gcm', piece_key, nonceOf(piece), { authTagLength: TAG_BYTES })
      opener.setAAD(associated)
      opener.setAuthTag(sealed.subarray(length))
      const opened = opener.update(sealed.subarray(0, length))
      opener.final()
      releaseBytes(sealed)
      return opened
    })
    at += length + TAG_BYTES
    hasher.update(plain)
    const is_last = piece === pieceCount(header.bytes) - 1
    if (is_last && state_hash !== undefined && !hasher.digest().equals(state_hash))
      throw new Error('the snapshot is not the journaled one')
    yield plain
    releaseBytes(plain)
  }
}

/**
 * Undefined if the bytes are invalid: a snapshot only shortens the replay, so an invalid one is not used.
 * @throws the error of a disk that does not return them: the snapshot may be intact then
 */
function readHeader(dir: string, name: string): Header | undefined {
  try {
    const header = readOpened(dir, name, 0, HEADER_BYTES, (bytes) => HEADER.decode(bytes))
    return disk.size(join(dir, name)) === fileBytes(header) ? header : undefined
  } catch (error) {
    if (isOfDisk(error)) throw error
    return undefined
  }
}

/** Undefined and errors as in `readHeader`. */
function openSnapshot(
  dir: string,
  name: string,
  key: Uint8Array,
  header: Header,
  state_hash: Uint8Array,
): Snapshot | undefined {
  const blocks = () => readPieces(dir, name, key, header, state_hash)
  try {
    for (const _ of blocks());
    return { seq: header.seq, head: header.head, state_hash, blocks }
  } catch (error) {
    if (isOfDisk(error)) throw error
    return undefined
  }
}
