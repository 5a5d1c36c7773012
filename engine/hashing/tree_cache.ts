/**
 * Caches the nodes of both trees, so that a boot hashes only later leaves. The disk is outside the trust boundary: the
 * file carries an HMAC, and an invalid file is ignored.
 */

import { createHmac, type Hmac, hkdfSync, timingSafeEqual } from 'node:crypto'
import { closeSync, existsSync, fstatSync, openSync, readSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { concatBytes, readU64Le, u64Le } from '../../protocol/bytes'
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

/** Streams the file into its own buffers. The data is untrusted until the HMAC is verified. */
class CacheReader {
  private readonly hmac: Hmac
  private left: number

  constructor(
    private readonly fd: number,
    key: Uint8Array,
  ) {
    this.hmac = createHmac('sha256', cacheKey(key))
    this.left = fstatSync(fd).size
  }

  /** @throws RangeError when the file has fewer bytes */
  run(length: number): Uint8Array {
    if (length > this.left) throw new RangeError('the cache is cut short')
    const bytes = new Uint8Array(length)
    for (let done = 0; done < length; ) {
      const got = readSync(this.fd, bytes, done, length - done, null)
      if (got === 0) throw new RangeError('the cache is cut short')
      done += got
    }
    this.left -= length
    return bytes
  }
  private body(length: number): Uint8Array {
    const bytes = this.run(length)
    this.hmac.update(bytes)
    return bytes
  }
  count(): number {
    return Number(readU64Le(this.body(8), 0))
  }
  values(): Uint8Array[] {
    const count = this.count()
    const bytes = this.body(count * NODE_BYTES)
    return Array.from({ length: count }, (_, at) => bytes.slice(at * NODE_BYTES, (at + 1) * NODE_BYTES))
  }
  nodes(): Uint8Array[][] {
    return Array.from({ length: TREE_DEPTH + 1 }, () => this.parts(this.count() * NODE_BYTES))
  }
  private parts(length: number): Uint8Array[] {
    const parts: Uint8Array[] = []
    for (let left = length; left > 0; left -= PART_BYTES) parts.push(this.body(Math.min(left, PART_BYTES)))
    return parts
  }
  agrees(tag: Uint8Array): boolean {
    return this.left === 0 && timingSafeEqual(this.hmac.digest(), tag)
  }
}

/** The cached trees; undefined when the file is missing, truncated or does not authenticate. */
export function readTreeCache(dir: string, key: Uint8Array): Trees | undefined {
  const path = join(dir, FILE)
  if (!existsSync(path)) return undefined
  const fd = openSync(path, 'r')
  try {
    return readTrees(new CacheReader(fd, key))
  } catch (error) {
    if (error instanceof RangeError) return undefined
    throw error
  } finally {
    closeSync(fd)
  }
}

function readTrees(reader: CacheReader): Trees | undefined {
  const tag = reader.run(TAG_BYTES)
  const last_batch_id = reader.count()
  const notes = reader.nodes()
  const values = reader.values()
  const spent = reader.nodes()
  if (!reader.agrees(tag)) return undefined
  return { last_batch_id, notes: noteTree(notes), spent: new SpentTree({ values, nodes: spent }) }
}
