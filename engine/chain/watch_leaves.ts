/** Follows the finalized note tree: leaves from events, checked against the own tree, handed on without gaps. */
import { equalBytes } from '../../protocol/bytes'
import type { ChainSinkPort, HashPort } from '../ports'
import type { ChainClient } from './chain_client'
import { eventHistory } from './event_history'
import type { KnownStates, NoteTreeState } from './known_states'
import type { VaultSnapshot } from './read_vault'
import { leavesOf } from './vault_events'

export class LeafWatch {
  /** Index of the first leaf that was not handed on yet. */
  #next: number

  constructor(
    readonly client: Pick<ChainClient, 'rpc' | 'address'>,
    readonly hash: HashPort,
    readonly states: KnownStates,
    readonly sink: ChainSinkPort,
    leaf_count: number,
  ) {
    this.#next = leaf_count
  }

  /** False once the roots differ: nothing may be credited or settled any more. @throws ChainUnavailable */
  async follow(snapshot: VaultSnapshot): Promise<boolean> {
    const { tree, ring, slot } = snapshot
    const own = this.hash.root()
    // A cached tree may be ahead of the journal, which receives these leaves again.
    if (own.leaf_count === tree.leaf_count && !this.#agree(own, tree)) return false
    if (tree.leaf_count <= this.#next) return true
    const leaves = await this.#collect(this.#next, tree.leaf_count)
    if (!leaves) return true
    const ends = [...ring.states, tree]
      .filter((state) => state.leaf_count > this.#next && state.leaf_count <= tree.leaf_count)
      .sort((a, b) => a.leaf_count - b.leaf_count)
    const first = this.#next
    for (const end of ends) {
      const piece = leaves.slice(this.#next - first, end.leaf_count - first)
      if (piece.length > 0 && !(await this.#hand(piece, end, slot))) return false
    }
    return true
  }

  /** Appends up to a state the chain knows; passes the leaves on only when the roots agree there. */
  async #hand(piece: Uint8Array[], end: NoteTreeState, slot: number): Promise<boolean> {
    const mirrored = await this.hash.leaves(this.#next, piece.length)
    if (mirrored.some((leaf, at) => !equalBytes(leaf, piece[at]!))) return false
    const own = await this.hash.appendLeaves(this.#next, piece)
    // An own tree that is ahead can be compared at a later state only.
    if (own.leaf_count > end.leaf_count) return true
    if (own.leaf_count < end.leaf_count || !this.#agree(own, end)) return false
    await this.sink.leaves(this.#next, piece, slot)
    this.#next = end.leaf_count
    return true
  }

  #agree(own: NoteTreeState, chain: NoteTreeState): boolean {
    if (own.leaf_count !== chain.leaf_count || !equalBytes(own.root, chain.root)) return false
    this.states.verified({ leaf_count: chain.leaf_count, root: chain.root })
    return true
  }

  /** Leaves `from` to `to`, exclusive; undefined while the node's history does not show all of them yet. */
  async #collect(from: number, to: number): Promise<Uint8Array[] | undefined> {
    const leaves: (Uint8Array | undefined)[] = new Array(to - from).fill(undefined)
    let missing = to - from
    for await (const events of eventHistory(this.client, this.client.address.tree, 'finalized')) {
      const found = events.flatMap(({ event }) => leavesOf(event))
      for (const { leaf_index, commitment } of found) {
        if (leaf_index < from || leaf_index >= to || leaves[leaf_index - from]) continue
        leaves[leaf_index - from] = commitment
        missing -= 1
      }
      if (missing === 0) return leaves as Uint8Array[]
      if (found.some(({ leaf_index }) => leaf_index < from)) return undefined
    }
    return undefined
  }
}
