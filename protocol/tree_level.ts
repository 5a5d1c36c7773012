/**
 * One level of a tree: its nodes as 32-byte hashes in parts that stay where they are, so that growing copies nothing, and
 * the children of a node lie one after another, as the hasher wants them.
 */

export const NODE_BYTES = 32
const PART_NODES = 1024
/** Every part but the last holds so much. */
export const PART_BYTES = PART_NODES * NODE_BYTES

export class TreeLevel {
  private readonly parts: Uint8Array[] = []
  private count = 0

  /**
   * @param parts as `nodes()` gave them, taken over: nobody else may write them.
   * @throws RangeError unless all but the last have PART_BYTES and the last has whole nodes
   */
  constructor(parts: readonly Uint8Array[] = []) {
    for (const part of parts) {
      const whole = part.length > 0 && part.length <= PART_BYTES && part.length % NODE_BYTES === 0
      if (!whole || this.count % PART_NODES !== 0) throw new RangeError('expected whole parts')
      this.parts.push(part.length === PART_BYTES ? part : padded(part))
      this.count += part.length / NODE_BYTES
    }
  }

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
      if (index % PART_NODES === 0) this.parts.push(new Uint8Array(PART_BYTES))
      this.count++
    }
    this.partOf(index).set(node, (index % PART_NODES) * NODE_BYTES)
  }

  /**
   * The nodes of each group one after another, `empty` where there is none.
   * @param size of a group: a power of two up to that of a part; group n begins at node n * size
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

  /** All nodes in parts, PART_BYTES each but the last; valid until the next change. */
  nodes(): readonly Uint8Array[] {
    const last = this.count % PART_NODES
    return this.parts.map((part, at) =>
      at === this.parts.length - 1 && last > 0 ? part.subarray(0, last * NODE_BYTES) : part,
    )
  }

  private partOf(index: number): Uint8Array {
    return this.parts[Math.floor(index / PART_NODES)]!
  }
}

function padded(part: Uint8Array): Uint8Array {
  const whole = new Uint8Array(PART_BYTES)
  whole.set(part)
  return whole
}
