/** One level of a tree: its nodes as 32-byte hashes in one growing buffer, so whole runs go to the hasher as they lie. */

const NODE_BYTES = 32

export class TreeLevel {
  private bytes: Uint8Array
  private count: number

  /** @param nodes a level's bytes, taken over: nobody else may write them. */
  constructor(nodes: Uint8Array = new Uint8Array(0)) {
    if (nodes.length % NODE_BYTES !== 0) throw new RangeError('expected whole nodes')
    this.bytes = nodes
    this.count = nodes.length / NODE_BYTES
  }

  get length(): number {
    return this.count
  }

  /** A copy of a node; undefined beyond the last one. */
  at(index: number): Uint8Array | undefined {
    if (index < 0 || index >= this.count) return undefined
    return this.bytes.slice(index * NODE_BYTES, (index + 1) * NODE_BYTES)
  }

  /** Replaces a node, or appends one. @throws RangeError beyond the end or for another size. */
  set(index: number, node: Uint8Array): void {
    if (index < 0 || index > this.count) throw new RangeError('nodes must be appended without a gap')
    if (node.length !== NODE_BYTES) throw new RangeError('expected 32 bytes')
    if (index === this.count) this.grow()
    this.bytes.set(node, index * NODE_BYTES)
  }

  private grow(): void {
    this.count++
    const needed = this.count * NODE_BYTES
    if (needed <= this.bytes.length) return
    const larger = new Uint8Array(Math.max(needed, 2 * this.bytes.length))
    larger.set(this.bytes)
    this.bytes = larger
  }

  /** Both children of each parent one after another, `empty` where there is no right one. */
  pairs(parents: readonly number[], empty: Uint8Array): Uint8Array {
    const pairs = new Uint8Array(parents.length * 2 * NODE_BYTES)
    parents.forEach((parent, at) => {
      const left = 2 * parent
      const end = Math.min(left + 2, this.count)
      pairs.set(this.bytes.subarray(left * NODE_BYTES, end * NODE_BYTES), at * 2 * NODE_BYTES)
      if (end === left + 1) pairs.set(empty, (at * 2 + 1) * NODE_BYTES)
    })
    return pairs
  }

  /** All nodes one after another; valid until the next change. */
  nodes(): Uint8Array {
    return this.bytes.subarray(0, this.count * NODE_BYTES)
  }
}
