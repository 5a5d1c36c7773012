/**
 * Keeps the indexed tree of spent nullifiers (protocol.md "Notes, commitments, tree"): leaf 0 is the head of the list,
 * every leaf names the next larger value, and the new leaves of a batch are inserted in ascending order. The leaf with
 * the largest value below an absent one proves its absence.
 */
import { compareBytes, concatBytes, equalBytes, isZero, toHex } from '../bytes'
import { MerkleTree, type TreeNodes } from './merkle_tree'
import { poseidonEach, poseidonOf } from './poseidon'

const NONE = new Uint8Array(32)
const LEAF_TAG = new Uint8Array(32)
LEAF_TAG[31] = 5

/** `Poseidon(5, value, next_value)`; next_value 0 means none. */
export function spentLeaf(value: Uint8Array, next_value: Uint8Array): Uint8Array {
  return poseidonOf(5, value, next_value)
}

/** `spentLeaf` of each, hashed in one batch. */
export function spentLeaves(leaves: readonly { value: Uint8Array; next_value: Uint8Array }[]): Uint8Array[] {
  const elements = concatBytes(...leaves.flatMap((leaf) => [LEAF_TAG, leaf.value, leaf.next_value]))
  const hashes = poseidonEach(3, elements)
  return leaves.map((_, at) => hashes.slice(32 * at, 32 * at + 32))
}

/** Leaf 0 of every spent tree: the head of the list of nullifiers. */
const SPENT_HEAD_LEAF: Uint8Array = spentLeaf(NONE, NONE)

type SpentLeaf = { index: number; value: Uint8Array; next_value: Uint8Array }

export class SpentTree {
  private readonly tree: MerkleTree
  /** By leaf index. */
  private readonly values: Uint8Array[] = [NONE]
  private readonly nexts: Uint8Array[] = [NONE]
  /** Leaf indexes by ascending value; leaf 0 first. */
  private readonly order: number[] = [0]
  private readonly known = new Set<string>()

  /** @param cached from `cache()`: values by leaf index (leaf 0 first) and the nodes above them. */
  constructor(cached?: { values: Uint8Array[]; nodes: TreeNodes }) {
    this.tree = new MerkleTree(cached?.nodes)
    if (cached === undefined) this.tree.append([SPENT_HEAD_LEAF])
    else this.relink(cached.values)
  }

  cache(): { values: readonly Uint8Array[]; nodes: TreeNodes } {
    return { values: this.values, nodes: this.tree.nodes() }
  }

  private relink(values: Uint8Array[]): void {
    const ascending = values.map((_, index) => index).sort((a, b) => compareBytes(values[a]!, values[b]!))
    // Not `push(...values)`: a call cannot take a million arguments.
    values.forEach((value, index) => {
      this.values[index] = value
      this.order[index] = ascending[index]!
    })
    this.nexts.length = values.length
    ascending.forEach((index, at) => {
      this.nexts[index] = values[ascending[at + 1] ?? -1] ?? NONE
      if (index !== 0) this.known.add(toHex(values[index]!))
    })
  }

  /** Without leaf 0. */
  get spent_count(): number {
    return this.values.length - 1
  }

  root(): Uint8Array {
    return this.tree.root()
  }

  has(value: Uint8Array): boolean {
    return this.known.has(toHex(value))
  }

  /** Inserts a batch of strictly ascending, non-zero, new values. @throws RangeError otherwise, changing nothing. */
  insert(values: readonly Uint8Array[]): void {
    this.insertBatches([values])
  }

  /** Inserts batches in order and hashes once; leaf positions equal those of separate inserts. */
  insertBatches(batches: readonly (readonly Uint8Array[])[]): void {
    this.assertInsertable(batches)
    const changed = new Set<number>()
    for (const values of batches) {
      for (const value of values) this.link(value, changed)
    }
    const indexes = [...changed]
    const leaves = spentLeaves(
      indexes.map((index) => ({ value: this.values[index]!, next_value: this.nexts[index]! })),
    )
    this.tree.change(new Map(indexes.map((index, at) => [index, leaves[at]!])))
  }

  private assertInsertable(batches: readonly (readonly Uint8Array[])[]): void {
    const fresh = new Set<string>()
    for (const values of batches) {
      values.forEach((value, at) => {
        const name = toHex(value)
        if (isZero(value) || this.known.has(name) || fresh.has(name))
          throw new RangeError('a nullifier is zero or already spent')
        if (at > 0 && compareBytes(values[at - 1]!, value) >= 0)
          throw new RangeError('nullifiers are not ascending')
        fresh.add(name)
      })
    }
  }

  private link(value: Uint8Array, changed: Set<number>): void {
    const place = this.placeOf(value)
    const low = this.order[place]!
    const index = this.values.length
    this.values.push(value)
    this.nexts.push(this.nexts[low]!)
    this.nexts[low] = value
    this.order.splice(place + 1, 0, index)
    this.known.add(toHex(value))
    changed.add(low).add(index)
  }

  /** The leaf that proves a value present (its own leaf) or absent (the leaf below it), with its 32 siblings. */
  witness(value: Uint8Array): { leaf: SpentLeaf; siblings: Uint8Array[]; present: boolean } {
    const index = this.order[this.placeOf(value)]!
    const leaf = { index, value: this.values[index]!, next_value: this.nexts[index]! }
    return { leaf, siblings: this.tree.siblings(index), present: equalBytes(leaf.value, value) }
  }

  /** Position in `order` of the largest value not above `value`. */
  private placeOf(value: Uint8Array): number {
    let low = 0
    let high = this.order.length - 1
    while (low < high) {
      const middle = (low + high + 1) >> 1
      if (compareBytes(this.values[this.order[middle]!]!, value) <= 0) low = middle
      else high = middle - 1
    }
    return low
  }
}

/** Root of a spent tree without nullifiers. */
export const EMPTY_SPENT_ROOT: Uint8Array = new SpentTree().root()
