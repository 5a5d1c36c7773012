/** Keeps the spent log: an append-only SHA-256 tree of depth 40 with a leaf for each settlement batch. */
import { concatBytes, u64Le, utf8 } from '../bytes'
import { sha256 } from '../sha256'

export const SPENT_LOG_DEPTH = 40

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

/** The root that a leaf leads to through its 40 siblings, from the leaf upwards. `index`: batch id - 1. */
export function spentRootFromPath(
  leaf: Uint8Array,
  index: number,
  siblings: readonly Uint8Array[],
): Uint8Array {
  if (siblings.length !== SPENT_LOG_DEPTH) throw new RangeError('expected 40 siblings')
  let [node, place] = [leaf, index]
  for (const sibling of siblings) {
    node = place % 2 === 1 ? spentNode(sibling, node) : spentNode(node, sibling)
    place = Math.floor(place / 2)
  }
  return node
}

/** Keeps every node, 64 bytes for each batch, so that any batch can be proved. */
export class SpentLog {
  /** Nodes by height that a leaf contributed to. */
  private readonly levels: Uint8Array[][] = Array.from({ length: SPENT_LOG_DEPTH + 1 }, () => [])

  /** Batches in the log; the next one has this index. */
  get batch_count(): number {
    return this.levels[0]!.length
  }

  /** @param batch_count of the log as it was after so many batches */
  root(batch_count = this.batch_count): Uint8Array {
    return this.node(SPENT_LOG_DEPTH, 0, batch_count)
  }

  /** Appends the next batch's leaf. */
  append(leaf: Uint8Array): void {
    let place = this.batch_count
    this.levels[0]!.push(leaf)
    for (let height = 0; height < SPENT_LOG_DEPTH; height++) {
      place = Math.floor(place / 2)
      this.levels[height + 1]![place] = spentNode(
        this.node(height, 2 * place, this.batch_count),
        this.node(height, 2 * place + 1, this.batch_count),
      )
    }
  }

  /**
   * The 40 siblings of a batch, from the leaf upwards, under the root after `batch_count` batches.
   * @throws RangeError for an index or a count beyond the log
   */
  siblings(index: number, batch_count = this.batch_count): Uint8Array[] {
    const ends = [index + 1, batch_count, this.batch_count]
    if (!ends.every(Number.isInteger) || index < 0 || index >= batch_count || batch_count > this.batch_count)
      throw new RangeError('no such batch')
    return Array.from({ length: SPENT_LOG_DEPTH }, (_, height) => {
      const place = Math.floor(index / 2 ** height)
      return this.node(height, place % 2 === 1 ? place - 1 : place + 1, batch_count)
    })
  }

  /** The node of the log after `batch_count` batches: a kept one, an empty subtree, or one with the last batch inside. */
  private node(height: number, place: number, batch_count: number): Uint8Array {
    const first = place * 2 ** height
    if (first >= batch_count) return EMPTY_SPENT_SUBTREES[height]!
    if (batch_count === this.batch_count || first + 2 ** height <= batch_count)
      return this.levels[height]![place]!
    return spentNode(
      this.node(height - 1, 2 * place, batch_count),
      this.node(height - 1, 2 * place + 1, batch_count),
    )
  }
}
