/**
 * Encodes the head of an append-only log of statements about places (attestation.md "Location") and verifies that the log has
 * a statement and extends an earlier head: a Merkle tree of RFC 6962, proofs as in RFC 9162 section 2.1.
 */
import { equalBytes } from '../bytes'
import { sha256 } from '../sha256'
import { BodyReader, BodyWriter } from './body_layout'

export const LOG_HEAD_BYTES = 56
const LOG_HEAD_DOMAIN = 'tacit/loc-log/1'
const LEAF = Uint8Array.of(0)
const NODE = Uint8Array.of(1)

type LogHead = {
  /** Number of statements. */
  size: bigint
  /** 32 bytes: root of the tree over them. */
  root: Uint8Array
}

export function encodeLogHead({ size, root }: LogHead): Uint8Array {
  return new BodyWriter(LOG_HEAD_BYTES).domain(LOG_HEAD_DOMAIN).u64(size).bytes(root, 32).done()
}

/** @throws BodyError unless the bytes are the canonical encoding of a head. */
export function decodeLogHead(bytes: Uint8Array): LogHead {
  const reader = new BodyReader(bytes, LOG_HEAD_BYTES)
  reader.domain(LOG_HEAD_DOMAIN)
  return { size: reader.u64(), root: reader.bytes(32) }
}

/** Leaf of one signed statement: SHA-256(0x00 ‖ body ‖ signature). */
export function logLeaf(body: Uint8Array, signature: Uint8Array): Uint8Array {
  return sha256(LEAF, body, signature)
}

/** True when `leaf` is number `index` of the log. @param path from the leaf upwards (RFC 9162 section 2.1.3.2) */
export function isInLog(
  leaf: Uint8Array,
  index: bigint,
  { size, root }: LogHead,
  path: Uint8Array[],
): boolean {
  if (index >= size) return false
  const climbed = climb(index, size - 1n, leaf, leaf, path)
  return climbed !== undefined && equalBytes(climbed.whole, root)
}

/** True when the first statements of `newer` are those of `older` (RFC 9162 section 2.1.4.2). An empty log proves nothing. */
export function extendsLog(older: LogHead, newer: LogHead, path: Uint8Array[]): boolean {
  if (older.size === 0n || older.size > newer.size) return false
  if (older.size === newer.size) return path.length === 0 && equalBytes(older.root, newer.root)
  let [node, last] = [older.size - 1n, newer.size - 1n]
  for (; node % 2n === 1n; node /= 2n) last /= 2n
  // A complete older tree is a node of the newer one, which the proof leaves out.
  const [start, ...rest] = node === 0n ? [older.root, ...path] : path
  const climbed = start && climb(node, last, start, start, rest)
  return (
    climbed !== undefined && equalBytes(climbed.left, older.root) && equalBytes(climbed.whole, newer.root)
  )
}

/**
 * Climbs from a node to the root of the tree whose last node of that level is `last`. Undefined for a path of another length.
 * @returns `whole`: the root over all; `left`: the root over the leaves up to and with the node's
 */
function climb(
  node: bigint,
  last: bigint,
  left: Uint8Array,
  whole: Uint8Array,
  path: readonly Uint8Array[],
): { left: Uint8Array; whole: Uint8Array } | undefined {
  for (const sibling of path) {
    if (last === 0n) return undefined
    if (node % 2n === 1n || node === last) {
      left = sha256(NODE, sibling, left)
      whole = sha256(NODE, sibling, whole)
      // A last node without a right sibling moves up unhashed.
      for (; node % 2n === 0n && node !== 0n; node /= 2n) last /= 2n
    } else whole = sha256(NODE, whole, sibling)
    node /= 2n
    last /= 2n
  }
  return last === 0n ? { left, whole } : undefined
}
