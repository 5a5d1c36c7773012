/**
 * A cache of both trees' nodes, so a boot hashes only what came since. The disk is outside the trust boundary: the file
 * carries an HMAC, and anything but a valid file is the same as none.
 */
import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto'
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { concatBytes, readU64Le, u64Le } from '../../protocol/bytes'
import { MerkleTree } from '../../protocol/merkle_tree'
import { TREE_DEPTH } from '../../protocol/note_tree'
import { SpentTree } from '../../protocol/spent_tree'
import type { Trees } from './trees'

const FILE = 'trees.cache'
const TAG_BYTES = 32

function cacheKey(key: Uint8Array): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', key, new Uint8Array(0), 'tacit/tree-cache/v1', 32))
}

const NODE_BYTES = 32

function encodeNodes(levels: readonly Uint8Array[]): Uint8Array {
  return concatBytes(...levels.flatMap((level) => [u64Le(level.length / NODE_BYTES), level]))
}

class CacheReader {
  private at = 0
  constructor(private readonly bytes: Uint8Array) {}
  count(): number {
    this.at += 8
    return Number(readU64Le(this.bytes, this.at - 8))
  }
  private run(length: number): Uint8Array {
    this.at += length
    return this.bytes.subarray(this.at - length, this.at)
  }
  values(): Uint8Array[] {
    return Array.from({ length: this.count() }, () => this.run(NODE_BYTES).slice())
  }
  nodes(): Uint8Array[] {
    return Array.from({ length: TREE_DEPTH + 1 }, () => this.run(this.count() * NODE_BYTES))
  }
}

export function writeTreeCache(dir: string, key: Uint8Array, trees: Trees): void {
  const spent = trees.spent.cache()
  const body = concatBytes(
    u64Le(trees.last_batch_id),
    encodeNodes(trees.notes.nodes()),
    u64Le(spent.values.length),
    ...spent.values,
    encodeNodes(spent.nodes),
  )
  const tag = createHmac('sha256', cacheKey(key)).update(body).digest()
  const path = join(dir, FILE)
  writeFileSync(`${path}.new`, concatBytes(tag, body))
  renameSync(`${path}.new`, path)
}

/** The cached trees, or undefined when there is no file or it is not one this venue wrote. */
export function readTreeCache(dir: string, key: Uint8Array): Trees | undefined {
  const path = join(dir, FILE)
  if (!existsSync(path)) return undefined
  const bytes = new Uint8Array(readFileSync(path))
  const body = bytes.subarray(TAG_BYTES)
  const tag = createHmac('sha256', cacheKey(key)).update(body).digest()
  if (bytes.length < TAG_BYTES || !timingSafeEqual(tag, bytes.subarray(0, TAG_BYTES))) return undefined
  const reader = new CacheReader(body)
  const last_batch_id = reader.count()
  const notes = new MerkleTree(reader.nodes())
  const values = reader.values()
  return { last_batch_id, notes, spent: new SpentTree({ values, nodes: reader.nodes() }) }
}
