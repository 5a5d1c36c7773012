/** A depth-32 Poseidon tree that keeps its nodes, so a batch of changes costs each touched parent one hash. */
import { EMPTY_SUBTREES, TREE_DEPTH } from './note_tree'
import { ELEMENT_BYTES, poseidonEach } from './poseidon'
import { TreeLevel } from './tree_level'

/** The nodes of each level, leaves first, in the parts of `TreeLevel.nodes`; none of a level that is not kept. */
export type TreeNodes = readonly (readonly Uint8Array[])[]

export class MerkleTree {
  /** By height: those of the leaves, of what lies above `skipped`; the others are made of the leaves when asked for. */
  private readonly levels: readonly (TreeLevel | undefined)[]

  /**
   * @param nodes as `nodes()` of a tree that skips as much gave them; taken over.
   * @param skipped levels above the leaves whose nodes are not kept. Without two of them a tree takes five eighths of the
   * memory, and a leaf that is changed alone takes four hashes more, as does a path.
   */
  constructor(
    nodes?: TreeNodes,
    private readonly skipped = 0,
  ) {
    this.levels = Array.from({ length: TREE_DEPTH + 1 }, (_, height) =>
      height > 0 && height <= skipped ? undefined : new TreeLevel(nodes?.[height]),
    )
  }

  get leaf_count(): number {
    return this.leaves.length
  }

  root(): Uint8Array {
    return this.node(TREE_DEPTH, 0)
  }

  leaf(index: number): Uint8Array {
    const leaf = this.leaves.at(index)
    if (leaf === undefined) throw new RangeError('no such leaf')
    return leaf
  }

  append(leaves: readonly Uint8Array[]): void {
    const first = this.leaf_count
    this.change(new Map(leaves.map((leaf, at) => [first + at, leaf])))
  }

  /** Sets leaves by index, each level hashed at once. New indexes must follow the last leaf without a gap. */
  change(leaves: ReadonlyMap<number, Uint8Array>): void {
    let touched = [...leaves.keys()].sort((a, b) => a - b)
    for (const index of touched) this.leaves.set(index, leaves.get(index)!)
    for (let height = 0; height < TREE_DEPTH; ) {
      const rise = height === 0 ? 1 + this.skipped : 1
      const above: number[] = []
      for (const index of touched) {
        const parent = Math.floor(index / 2 ** rise)
        if (above.at(-1) !== parent) above.push(parent)
      }
      const hashes = this.risen(height, rise, above)
      height += rise
      const level = this.levels[height]!
      above.forEach((index, at) => {
        level.set(index, hashes.subarray(at * ELEMENT_BYTES, (at + 1) * ELEMENT_BYTES))
      })
      touched = above
    }
  }

  /** The 32 siblings of a leaf, from the leaf upwards. @throws RangeError for an index without a leaf. */
  siblings(index: number): Uint8Array[] {
    if (index < 0 || index >= this.leaf_count) throw new RangeError('no such leaf')
    let place = index
    return Array.from({ length: TREE_DEPTH }, (_, height) => {
      const sibling = place % 2 === 1 ? place - 1 : place + 1
      place = Math.floor(place / 2)
      return this.node(height, sibling)
    })
  }

  /** Every node that is kept, for a cache; the constructor takes it back. Valid until the next change. */
  nodes(): TreeNodes {
    return this.levels.map((level) => level?.nodes() ?? [])
  }

  private get leaves(): TreeLevel {
    return this.levels[0]!
  }

  private node(height: number, index: number): Uint8Array {
    const level = this.levels[height]
    if (level !== undefined) return level.at(index) ?? EMPTY_SUBTREES[height]!
    if (index * 2 ** height >= this.leaf_count) return EMPTY_SUBTREES[height]!
    return this.risen(0, height, [index])
  }

  /** Nodes that lie `rise` levels above a kept one, made of all that lies below each there. */
  private risen(height: number, rise: number, indexes: readonly number[]): Uint8Array {
    let nodes = this.levels[height]!.groups(indexes, 2 ** rise, EMPTY_SUBTREES[height]!)
    for (let step = 0; step < rise; step++) nodes = poseidonEach(2, nodes)
    return nodes
  }
}
