/**
 * Keeps append-only trees of depth 40: the note tree (`node = Poseidon(left, right)`, empty leaf 0), and the spent log, of
 * SHA-256, with a leaf for each settlement batch.
 */
import { concatBytes, u64Le, utf8 } from '../bytes'
import { TREE_DEPTH } from '../limits'
import { sha256 } from '../sha256'
import { ELEMENT_BYTES, poseidonEach, poseidonOf } from './poseidon'

function treeNode(left: Uint8Array, right: Uint8Array): Uint8Array {
  return poseidonOf(left, right)
}

/** EMPTY_SUBTREES[h] is the root of an empty subtree of height h; the last one is the empty tree's root. */
export const EMPTY_SUBTREES: readonly Uint8Array[] = (() => {
  const roots: Uint8Array[] = [new Uint8Array(32)]
  for (let height = 0; height < TREE_DEPTH; height++) roots.push(treeNode(roots[height]!, roots[height]!))
  return roots
})()

export const NODE_BYTES = ELEMENT_BYTES
const PART_NODES = 1024
/** Size of every part of a level but the last. */
export const PART_BYTES = PART_NODES * NODE_BYTES

/** The parts of a level, PART_BYTES each. Only the last part changes. */
export type LevelParts = {
  at(part: number): Uint8Array
  /** Begins the next part, all zeros. */
  open(part: number): void
  /** Makes `part` the last one again. */
  reopen(part: number): void
}

function inMemory(): LevelParts {
  const parts: Uint8Array[] = []
  return {
    at: (part) => parts[part]!,
    open: () => parts.push(new Uint8Array(PART_BYTES)),
    reopen: (part) => parts.splice(part + 1),
  }
}

/** The nodes of one level. The children of a node are adjacent, as the hasher expects its inputs. */
export class TreeLevel {
  /** @param count nodes that the parts hold already */
  constructor(
    private readonly parts: LevelParts = inMemory(),
    private count = 0,
  ) {}

  get length(): number {
    return this.count
  }

  /** A copy of a node; undefined beyond the last one. */
  at(index: number): Uint8Array | undefined {
    if (index < 0 || index >= this.count) return undefined
    const at = (index % PART_NODES) * NODE_BYTES
    return this.partOf(index).slice(at, at + NODE_BYTES)
  }

  /** Replaces a node, or appends one. @throws RangeError beyond the end or for another size. */
  set(index: number, node: Uint8Array): void {
    if (index < 0 || index > this.count) throw new RangeError('nodes must be appended without a gap')
    if (node.length !== NODE_BYTES) throw new RangeError('expected 32 bytes')
    if (index === this.count) {
      if (index % PART_NODES === 0) this.parts.open(index / PART_NODES)
      this.count++
    }
    this.partOf(index).set(node, (index % PART_NODES) * NODE_BYTES)
  }

  /**
   * The nodes of each group, concatenated; `empty` in place of a node that does not exist.
   * @param size nodes per group, a power of two up to PART_NODES; group n begins at node n * size
   */
  groups(groups: readonly number[], size: number, empty: Uint8Array): Uint8Array {
    const nodes = new Uint8Array(groups.length * size * NODE_BYTES)
    groups.forEach((group, n) => {
      const first = group * size
      const present = Math.max(0, Math.min(size, this.count - first))
      const to = n * size
      if (present > 0) {
        const at = (first % PART_NODES) * NODE_BYTES
        nodes.set(this.partOf(first).subarray(at, at + present * NODE_BYTES), to * NODE_BYTES)
      }
      for (let node = to + present; node < to + size; node++) nodes.set(empty, node * NODE_BYTES)
    })
    return nodes
  }

  truncate(count: number): void {
    if (count >= this.count) return
    this.count = count
    this.parts.reopen(Math.ceil(count / PART_NODES) - 1)
  }

  private partOf(index: number): Uint8Array {
    return this.parts.at(Math.floor(index / PART_NODES))
  }
}

/** How a tree hashes. */
type TreeHashing = {
  /** By height: the root of an empty subtree. */
  readonly empty: readonly Uint8Array[]
  /** The parents of adjacent pairs of nodes, concatenated. */
  readonly parents: (nodes: Uint8Array) => Uint8Array
}

const POSEIDON: TreeHashing = { empty: EMPTY_SUBTREES, parents: (nodes) => poseidonEach(2, nodes) }

/** Keeps its nodes, so that a batch of leaves costs one hash per touched parent. */
export class MerkleTree {
  /** By height. Undefined for the `skipped` levels above the leaves: their nodes are computed on demand. */
  private readonly levels: readonly (TreeLevel | undefined)[]

  /**
   * @param levelOf the level of a height
   * @param skipped number of levels above the leaves whose nodes are not kept. Skipping two saves three eighths of the
   * memory and adds four hashes to a path and to the append of a single leaf.
   */
  constructor(
    levelOf: (height: number) => TreeLevel = () => new TreeLevel(),
    private readonly skipped = 0,
    private readonly hashing = POSEIDON,
  ) {
    this.levels = Array.from({ length: TREE_DEPTH + 1 }, (_, height) =>
      height > 0 && height <= skipped ? undefined : levelOf(height),
    )
  }

  get leaf_count(): number {
    return this.leaves.length
  }

  /** @param leaf_count of the tree at that size */
  root(leaf_count = this.leaf_count): Uint8Array {
    return this.node(TREE_DEPTH, 0, leaf_count)
  }

  leaf(index: number): Uint8Array {
    const leaf = this.leaves.at(index)
    if (leaf === undefined) throw new RangeError('no such leaf')
    return leaf
  }

  /** Appends with one batch of hashes per level. */
  append(leaves: readonly Uint8Array[]): void {
    if (leaves.length === 0) return
    const first = this.leaf_count
    for (const leaf of leaves) this.leaves.set(this.leaf_count, leaf)
    this.rise(first)
  }

  /** Removes the leaves from `leaf_count` on. */
  truncate(leaf_count: number): void {
    if (leaf_count >= this.leaf_count) return
    this.levels.forEach((level, height) => {
      level?.truncate(Math.ceil(leaf_count / 2 ** height))
    })
    if (leaf_count > 0) this.rise(leaf_count - 1)
  }

  /** Computes the nodes above the leaves from `first` on. */
  private rise(first_leaf: number): void {
    let [first, last] = [first_leaf, this.leaf_count - 1]
    for (let height = 0; height < TREE_DEPTH; ) {
      const rise = height === 0 ? 1 + this.skipped : 1
      ;[first, last] = [Math.floor(first / 2 ** rise), Math.floor(last / 2 ** rise)]
      const above = Array.from({ length: last - first + 1 }, (_, at) => first + at)
      const hashes = this.risen(height, rise, above)
      height += rise
      const level = this.levels[height]!
      above.forEach((index, at) => {
        level.set(index, hashes.subarray(at * NODE_BYTES, (at + 1) * NODE_BYTES))
      })
    }
  }

  /**
   * The 40 siblings of a leaf, from the leaf upwards, under the root with `leaf_count` leaves.
   * @throws RangeError for an index without a leaf, and for more leaves than there are
   */
  siblings(index: number, leaf_count = this.leaf_count): Uint8Array[] {
    const whole = Number.isInteger(index) && Number.isInteger(leaf_count)
    if (!whole || index < 0 || index >= leaf_count || leaf_count > this.leaf_count)
      throw new RangeError('no such leaf')
    let place = index
    return Array.from({ length: TREE_DEPTH }, (_, height) => {
      const sibling = place % 2 === 1 ? place - 1 : place + 1
      place = Math.floor(place / 2)
      return this.node(height, sibling, leaf_count)
    })
  }

  private get leaves(): TreeLevel {
    return this.levels[0]!
  }

  private node(height: number, index: number, leaf_count: number): Uint8Array {
    const first = index * 2 ** height
    if (first >= leaf_count) return this.hashing.empty[height]!
    if (leaf_count < this.leaf_count && first + 2 ** height > leaf_count) {
      const [left, right] = [2 * index, 2 * index + 1].map((child) =>
        this.node(height - 1, child, leaf_count),
      )
      return this.hashing.parents(concatBytes(left!, right!))
    }
    return this.levels[height]?.at(index) ?? this.risen(0, height, [index])
  }

  /** Computes the nodes `rise` levels above the kept level `height`. */
  private risen(height: number, rise: number, indexes: readonly number[]): Uint8Array {
    let nodes = this.levels[height]!.groups(indexes, 2 ** rise, this.hashing.empty[height]!)
    for (let step = 0; step < rise; step++) nodes = this.hashing.parents(nodes)
    return nodes
  }
}

export const SPENT_LOG_DEPTH = TREE_DEPTH

const LEAF_DOMAIN = utf8('tacit/spent/v1')
const NODE_TAG = Uint8Array.of(1)

/** SHA-256("tacit/spent/v1" ‖ batch id u64 LE ‖ nullifiers). `nullifiers`: all of the batch, ascending. */
export const spentLogLeaf = (batch: number, nullifiers: readonly Uint8Array[]): Uint8Array =>
  sha256(LEAF_DOMAIN, u64Le(batch), concatBytes(...nullifiers))

const spentNode = (left: Uint8Array, right: Uint8Array): Uint8Array => sha256(NODE_TAG, left, right)

/** EMPTY_SPENT_SUBTREES[h] is the root of an empty subtree of height h; the last one is that of an empty log. */
export const EMPTY_SPENT_SUBTREES: readonly Uint8Array[] = (() => {
  const roots: Uint8Array[] = [new Uint8Array(32)]
  for (let height = 0; height < SPENT_LOG_DEPTH; height++)
    roots.push(spentNode(roots[height]!, roots[height]!))
  return roots
})()

/** The spent log; its leaves are those of `spentLogLeaf`, the leaf of batch n at index n - 1. Keeps 64 bytes for each batch. */
export class SpentLog extends MerkleTree {
  constructor(levelOf?: (height: number) => TreeLevel) {
    super(levelOf, 0, { empty: EMPTY_SPENT_SUBTREES, parents: spentParents })
  }
}

function spentParents(nodes: Uint8Array): Uint8Array {
  const parents: Uint8Array[] = []
  for (let at = 0; at < nodes.length; at += 2 * NODE_BYTES)
    parents.push(sha256(NODE_TAG, nodes.subarray(at, at + 2 * NODE_BYTES)))
  return concatBytes(...parents)
}
