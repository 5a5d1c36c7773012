/** The window of recent blocks: which blockhash belongs to which slot and how long it may still be used. */
import { encodeBase58 } from '../../../protocol/base58'
import { u64Le, utf8 } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import type { Block } from './store'

/** Blocks a node keeps for validity checks, twice the longest life. */
const WINDOW = 300

export class Blockhashes {
  #blocks: Block[] = []
  #byHash = new Map<string, Block>()

  constructor(blocks: Block[]) {
    for (const block of blocks) this.add(block)
  }

  /** Depends on chain, slot and fork count: an abandoned block's hash never comes back. */
  static hashOf(genesis_hash: Uint8Array, slot: number, forks: number): string {
    return encodeBase58(sha256(utf8('tacit/embedded/block/v1'), genesis_hash, u64Le(slot), u64Le(forks)))
  }

  add(block: Block): void {
    this.#blocks.push(block)
    this.#byHash.set(block.blockhash, block)
    const expired = this.#blocks.length > WINDOW ? this.#blocks.shift() : undefined
    if (expired) this.#byHash.delete(expired.blockhash)
  }

  /** The newest block at or below `slot`. */
  at(slot: number): Block {
    for (let index = this.#blocks.length - 1; index >= 0; index--) {
      if (this.#blocks[index]!.slot <= slot) return this.#blocks[index]!
    }
    return this.#blocks[0]!
  }

  exact(slot: number): Block | undefined {
    const block = this.at(slot)
    return block.slot === slot ? block : undefined
  }

  heightOf(blockhash: string): number | undefined {
    return this.#byHash.get(blockhash)?.height
  }

  /** Gives every block above `slot` a new hash; returns them. */
  replaceAbove(slot: number, hashOf: (slot: number) => string): Block[] {
    const replaced = this.#blocks.filter((block) => block.slot > slot)
    for (const block of replaced) {
      this.#byHash.delete(block.blockhash)
      block.blockhash = hashOf(block.slot)
      this.#byHash.set(block.blockhash, block)
    }
    return replaced
  }
}
