/** Owns the snapshot files: encrypted in pieces, bound to their journal position, published by rename. */
import { hkdfSync, randomBytes } from 'node:crypto'
import { mkdirSync, readdirSync } from 'node:fs'
import { type FileHandle, open, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { getSafe, setSafe } from './segment_header'
import type { Snapshot, SnapshotStore } from './snapshot_contract'

const SNAPSHOT_NAME = /^(\d{16})\.snapshot$/
const UNFINISHED_NAME = 'snapshot.unfinished'
const MAGIC = new TextEncoder().encode('TACITS01')
/** Header: magic 8, seq 8, bytes 8, head 32, salt 32. It is the associated data of every piece. */
const HEADER_BYTES = 88
const PIECE_BYTES = 1024 * 1024
const TAG_BYTES = 16
const KEPT = 2

/**
 * @param key 32 bytes, the journal's
 * @throws RangeError for a key of another width
 */
export function openSnapshotStore({ dir, key }: { dir: string; key: Uint8Array }): SnapshotStore {
  if (key.length !== 32) throw new RangeError('the snapshot key has 32 bytes')
  mkdirSync(dir, { recursive: true, mode: 0o700 })
  const names = () =>
    readdirSync(dir)
      .filter((name) => SNAPSHOT_NAME.test(name))
      .sort()
      .reverse()
  return {
    async writeSnapshot(seq, head, bytes) {
      const header = encodeHeader(seq, head, bytes.length)
      const unfinished = join(dir, UNFINISHED_NAME)
      const file = await open(unfinished, 'w', 0o600)
      try {
        await writePieces(file, header, await pieceKey(key, header), bytes)
        await file.sync()
      } finally {
        await file.close()
      }
      await rename(unfinished, join(dir, `${String(seq).padStart(16, '0')}.snapshot`))
      await syncFolder(dir)
      for (const name of names().slice(KEPT)) await rm(join(dir, name))
    },
    async newestValid(seq_max = Number.MAX_SAFE_INTEGER) {
      const rejected: string[] = []
      for (const name of names().filter((one) => seqOf(one) <= seq_max)) {
        const snapshot = await readSnapshot(join(dir, name), key)
        if (snapshot !== undefined) return { snapshot, rejected }
        rejected.push(name)
      }
      return { snapshot: undefined, rejected }
    },
    seqs: () => names().map(seqOf),
  }
}

const seqOf = (name: string): number => Number(SNAPSHOT_NAME.exec(name)![1])

function encodeHeader(seq: number, head: Uint8Array, bytes: number): Uint8Array<ArrayBuffer> {
  if (head.length !== 32) throw new RangeError('a head has 32 bytes')
  const header = new Uint8Array(HEADER_BYTES)
  const view = new DataView(header.buffer)
  header.set(MAGIC, 0)
  setSafe(view, 8, seq)
  setSafe(view, 16, bytes)
  header.set(head, 24)
  header.set(randomBytes(32), 56)
  return header
}

function pieceKey(key: Uint8Array, header: Uint8Array): Promise<CryptoKey> {
  const derived = hkdfSync('sha256', key, header.subarray(56, 88), 'tacit/snapshot/v1', 32)
  return crypto.subtle.importKey('raw', derived, 'AES-GCM', false, ['encrypt', 'decrypt'])
}

/** The salt makes the key this file's own, so the piece number is a nonce used once; the header states how many. */
function pieceParameters(header: Uint8Array<ArrayBuffer>, piece: number): AesGcmParams {
  const iv = new Uint8Array(12)
  new DataView(iv.buffer).setUint32(0, piece, true)
  return { name: 'AES-GCM', iv, additionalData: header, tagLength: TAG_BYTES * 8 }
}

/** An empty state still has one piece, so that a header alone is never a snapshot. */
const pieceCount = (bytes: number): number => Math.max(1, Math.ceil(bytes / PIECE_BYTES))

/** subtle encrypts off this thread; between pieces the event loop turns. */
async function writePieces(
  file: FileHandle,
  header: Uint8Array<ArrayBuffer>,
  key: CryptoKey,
  bytes: Uint8Array,
): Promise<void> {
  await writeWhole(file, header, 0)
  let at = HEADER_BYTES
  for (let piece = 0; piece < pieceCount(bytes.length); piece++) {
    const plain = bytes.subarray(piece * PIECE_BYTES, (piece + 1) * PIECE_BYTES) as Uint8Array<ArrayBuffer>
    const sealed = new Uint8Array(await crypto.subtle.encrypt(pieceParameters(header, piece), key, plain))
    await writeWhole(file, sealed, at)
    at += sealed.length
  }
}

/** A snapshot is only ever a shortcut, so whatever is wrong with one means: do not use it. */
async function readSnapshot(path: string, key: Uint8Array): Promise<Snapshot | undefined> {
  let file: FileHandle | undefined
  try {
    file = await open(path, 'r')
    const { size } = await file.stat()
    const header = await readWhole(file, 0, HEADER_BYTES)
    const view = new DataView(header.buffer)
    const total = getSafe(view, 16)
    if (!MAGIC.every((byte, i) => header[i] === byte)) return undefined
    if (size !== HEADER_BYTES + total + pieceCount(total) * TAG_BYTES) return undefined
    const bytes = new Uint8Array(total)
    const piece_key = await pieceKey(key, header)
    for (let piece = 0, at = HEADER_BYTES; piece < pieceCount(total); piece++) {
      const sealed = await readWhole(file, at, Math.min(PIECE_BYTES, total - piece * PIECE_BYTES) + TAG_BYTES)
      bytes.set(
        new Uint8Array(await crypto.subtle.decrypt(pieceParameters(header, piece), piece_key, sealed)),
        piece * PIECE_BYTES,
      )
      at += sealed.length
    }
    return { seq: getSafe(view, 8), head: header.slice(24, 56), bytes }
  } catch {
    return undefined
  } finally {
    await file?.close()
  }
}

async function syncFolder(dir: string): Promise<void> {
  const folder = await open(dir, 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}

async function writeWhole(file: FileHandle, bytes: Uint8Array, at: number): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const { bytesWritten } = await file.write(bytes, done, bytes.length - done, at + done)
    done += bytesWritten
  }
}

async function readWhole(file: FileHandle, at: number, length: number): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = new Uint8Array(length)
  for (let done = 0; done < length; ) {
    const { bytesRead } = await file.read(bytes, done, length - done, at + done)
    if (bytesRead === 0) throw new Error('the file ends early')
    done += bytesRead
  }
  return bytes
}
