/** A depth-32 Poseidon tree that keeps every node, so a batch of changes costs each touched parent one hash. */
import { fieldFromBytes, fieldToBytes } from './field'
import { EMPTY_SUBTREES, TREE_DEPTH } from './note_tree'
import { poseidon } from './poseidon'

const EMPTY: readonly bigint[] = EMPTY_SUBTREES.map(fieldFromBytes)

export class MerkleTree {
  /** levels[0] are the leaves; levels[h] the nodes of height h that are not all empty. */
  private readonly levels: bigint[][]

  constructor(levels?: bigint[][]) {
    this.levels = levels ?? Array.from({ length: TREE_DEPTH + 1 }, () => [])
  }

  get leaf_count(): number {
    return this.levels[0]!.length
  }

  root(): Uint8Array {
    return fieldToBytes(this.levels[TREE_DEPTH]![0] ?? EMPTY[TREE_DEPTH]!)
  }

  leaf(index: number): Uint8Array {
    const leaf = this.levels[0]![index]
    if (leaf === undefined) throw new RangeError('no such leaf')
    return fieldToBytes(leaf)
  }

  append(leaves: readonly Uint8Array[]): void {
    const first = this.leaf_count
    this.change(new Map(leaves.map((leaf, at) => [first + at, leaf])))
  }

  /** Sets leaves by index, level by level. New indexes must follow the last leaf without a gap. */
  change(leaves: ReadonlyMap<number, Uint8Array>): void {
    const bottom = this.levels[0]!
    let touched = [...leaves.keys()].sort((a, b) => a - b)
    for (const index of touched) {
      if (index > bottom.length) throw new RangeError('leaves must be appended without a gap')
      bottom[index] = fieldFromBytes(leaves.get(index)!)
    }
    for (let height = 0; height < TREE_DEPTH; height++) {
      const below = this.levels[height]!
      const parents: number[] = []
      for (const index of touched) {
        const parent = Math.floor(index / 2)
        if (parents.at(-1) !== parent) parents.push(parent)
      }
      for (const parent of parents) {
        const left = below[2 * parent]!
        const right = below[2 * parent + 1] ?? EMPTY[height]!
        this.levels[height + 1]![parent] = poseidon([left, right])
      }
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
      return fieldToBytes(this.levels[height]![sibling] ?? EMPTY[height]!)
    })
  }

  /** Every node, for a cache; the constructor takes it back. */
  nodes(): readonly (readonly bigint[])[] {
    return this.levels
  }
}
