/** A depth-32 Poseidon tree that keeps every node, so a batch of changes costs each touched parent one hash. */
import { EMPTY_SUBTREES, TREE_DEPTH } from './note_tree'
import { ELEMENT_BYTES, poseidonEach } from './poseidon'
import { TreeLevel } from './tree_level'

export class MerkleTree {
  /** levels[0] are the leaves; levels[h] the nodes of height h that are not all empty. */
  private readonly levels: readonly TreeLevel[]

  /** @param nodes as `nodes()` gave them, the bytes of each level; taken over. */
  constructor(nodes?: readonly Uint8Array[]) {
    this.levels = Array.from({ length: TREE_DEPTH + 1 }, (_, height) => new TreeLevel(nodes?.[height]))
  }

  get leaf_count(): number {
    return this.levels[0]!.length
  }

  root(): Uint8Array {
    return this.levels[TREE_DEPTH]!.at(0) ?? EMPTY_SUBTREES[TREE_DEPTH]!
  }

  leaf(index: number): Uint8Array {
    const leaf = this.levels[0]!.at(index)
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
    for (const index of touched) this.levels[0]!.set(index, leaves.get(index)!)
    for (let height = 0; height < TREE_DEPTH; height++) {
      const parents: number[] = []
      for (const index of touched) {
        const parent = Math.floor(index / 2)
        if (parents.at(-1) !== parent) parents.push(parent)
      }
      const hashes = poseidonEach(2, this.levels[height]!.pairs(parents, EMPTY_SUBTREES[height]!))
      const above = this.levels[height + 1]!
      parents.forEach((parent, at) => {
        above.set(parent, hashes.subarray(at * ELEMENT_BYTES, (at + 1) * ELEMENT_BYTES))
      })
      touched = parents
    }
  }

  /** The 32 siblings of a leaf, from the leaf upwards. @throws RangeError for an index without a leaf. */
  siblings(index: number): Uint8Array[] {
    if (index < 0 || index >= this.leaf_count) throw new RangeError('no such leaf')
    let place = index
    return Array.from({ length: TREE_DEPTH }, (_, height) => {
      const sibling = place % 2 === 1 ? place - 1 : place + 1
      place = Math.floor(place / 2)
      return this.levels[height]!.at(sibling) ?? EMPTY_SUBTREES[height]!
    })
  }

  /** Every node, the bytes of each level, for a cache; the constructor takes it back. Valid until the next change. */
  nodes(): readonly Uint8Array[] {
    return this.levels.map((level) => level.nodes())
  }
}
