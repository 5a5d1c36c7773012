/**
 * Caches the nodes of both trees, so that a boot hashes only later leaves. The disk is outside the trust boundary: the
 * file carries an HMAC, and an invalid file is ignored.
 */

import { createHmac, type Hmac, hkdfSync, timingSafeEqual } from 'node:crypto'
import { closeSync, existsSync, openSync, readSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ByteReader, CodecError } from '../../protocol/byte_stream'
import { concatBytes, u64Le } from '../../protocol/bytes'
import { fixed, list } from '../../protocol/codec'
import { NODE_BYTES, PART_BYTES, TREE_DEPTH, type TreeNodes } from '../../protocol/notes/merkle_tree'
import { SpentTree } from '../../protocol/notes/spent_tree'
import { noteTree, type Trees } from './trees'

const FILE = 'trees.cache'
const TAG_BYTES = 32

function cacheKey(key: Uint8Array): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', key, new Uint8Array(0), 'tacit/tree-cache/v2', 32))
}

const VALUES_AT_A_TIME = 4096

function* bodyOf(trees: Trees): Generator<Uint8Array> {
  const spent = trees.spent.cache()
  yield u64Le(trees.last_batch_id)
  yield* levelsOf(trees.notes.nodes())
  yield u64Le(spent.values.length)
  for (let from = 0; from < spent.values.length; from += VALUES_AT_A_TIME) {
    yield concatBytes(...spent.values.slice(from, from + VALUES_AT_A_TIME))
  }
  yield* levelsOf(spent.nodes)
}

function* levelsOf(levels: TreeNodes): Generator<Uint8Array> {
  for (const parts of levels) {
    const bytes = parts.reduce((sum, { length }) => sum + length, 0)
    yield u64Le(bytes / NODE_BYTES)
    yield* parts
  }
}

/** Writes part by part, because a tree may need as much memory as the rest of the process. */
export function writeTreeCache(dir: string, key: Uint8Array, trees: Trees): void {
  const hmac = createHmac('sha256', cacheKey(key))
  for (const part of bodyOf(trees)) hmac.update(part)
  const path = join(dir, FILE)
  const fd = openSync(`${path}.new`, 'w', 0o600)
  try {
    writeFileSync(fd, hmac.digest())
    for (const part of bodyOf(trees)) writeFileSync(fd, part)
  } finally {
    closeSync(fd)
  }
  renameSync(`${path}.new`, path)
}

/** Blocks of the file. The data is untrusted until the HMAC, which is fed with each block, is verified. */
function* blocksOf(fd: number, hmac: Hmac): Generator<Uint8Array> {
  for (;;) {
    const block = new Uint8Array(PART_BYTES)
    const length = readSync(fd, block)
    if (length === 0) return
    hmac.update(block.subarray(0, length))
    yield block.subarray(0, length)
  }
}

function readNodes(from: ByteReader): Uint8Array[][] {
  return Array.from({ length: TREE_DEPTH + 1 }, () => {
    const parts: Uint8Array[] = []
    for (let left = from.uint() * NODE_BYTES; left > 0; left -= PART_BYTES)
      parts.push(from.fixed(Math.min(left, PART_BYTES)))
    return parts
  })
}

/** The cached trees; undefined when the file is missing, truncated or does not authenticate. */
export function readTreeCache(dir: string, key: Uint8Array): Trees | undefined {
  const path = join(dir, FILE)
  if (!existsSync(path)) return undefined
  const fd = openSync(path, 'r')
  try {
    return readTrees(fd, key)
  } catch (error) {
    if (error instanceof CodecError || error instanceof RangeError) return undefined
    throw error
  } finally {
    closeSync(fd)
  }
}

function readTrees(fd: number, key: Uint8Array): Trees | undefined {
  const tag = new Uint8Array(TAG_BYTES)
  readSync(fd, tag)
  const hmac = createHmac('sha256', cacheKey(key))
  const from = new ByteReader(new Uint8Array(0), 0, blocksOf(fd, hmac))
  const last_batch_id = from.uint()
  const notes = readNodes(from)
  const values = list(fixed(NODE_BYTES)).read(from)
  const spent = readNodes(from)
  from.done()
  if (!timingSafeEqual(hmac.digest(), tag)) return undefined
  return { last_batch_id, notes: noteTree(notes), spent: new SpentTree({ values, nodes: spent }) }
}
