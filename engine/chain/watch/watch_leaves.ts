/** Follows the finalized note tree: passes leaves to the engine and keeps the states that a settlement may cite. */
import { equalBytes, toHex } from '../../../protocol/bytes'
import { LIMITS } from '../../limits'
import type { ChainSinkPort, HashPort } from '../../ports'
import type { ChainClient } from '../client/chain_client'
import type { VaultSnapshot } from '../client/read_vault'
import { eventHistory, leavesOf } from '../client/vault_events'

export type NoteTreeState = { leaf_count: number; root: Uint8Array }

/** States of the note tree that the chain has finalized and the venue's tree reproduces: only these may be cited. */
export class KnownStates {
  private readonly roots = new Map<number, string>()

  verified(state: NoteTreeState): void {
    this.roots.set(state.leaf_count, toHex(state.root))
    const oldest = this.roots.keys().next().value
    if (this.roots.size > LIMITS.tree_states_kept && oldest !== undefined) this.roots.delete(oldest)
  }

  isVerified(state: NoteTreeState): boolean {
    return this.roots.get(state.leaf_count) === toHex(state.root)
  }

  /**
   * A verified state with at least `leaf_count_min` leaves that the program accepts now: the newest in the ring, otherwise
   * the current one, which becomes unknown to the program if a deposit lands first.
   */
  cite(snapshot: VaultSnapshot, leaf_count_min: number): NoteTreeState | undefined {
    const kept = this.citeKept(snapshot, leaf_count_min)
    if (kept) return kept
    const { tree } = snapshot
    return tree.leaf_count >= leaf_count_min && this.isVerified(tree) ? tree : undefined
  }

  /** The newest such state in the ring: it stays known while earlier batches land. */
  citeKept({ ring }: VaultSnapshot, leaf_count_min: number): NoteTreeState | undefined {
    return ring.states.findLast((state) => state.leaf_count >= leaf_count_min && this.isVerified(state))
  }
}

export class LeafWatch {
  /** Index of the first leaf that was not passed on yet. */
  private next: number

  constructor(
    readonly client: Pick<ChainClient, 'rpc' | 'address'>,
    readonly hash: HashPort,
    readonly states: KnownStates,
    readonly sink: ChainSinkPort,
    leaf_count: number,
  ) {
    this.next = leaf_count
  }

  /** Passes on new leaves. False once the roots differ: nothing may be credited or settled then. @throws ChainUnavailable */
  async follow(snapshot: VaultSnapshot): Promise<boolean> {
    const { tree, ring, slot } = snapshot
    const own = this.hash.root()
    // A cached tree may be ahead of the journal, which then receives these leaves again.
    if (own.leaf_count === tree.leaf_count && !this.agree(own, tree)) return false
    if (tree.leaf_count <= this.next) return true
    const leaves = await this.collect(this.next, tree.leaf_count)
    if (!leaves) return true
    const ends = [...ring.states, tree]
      .filter((state) => state.leaf_count > this.next && state.leaf_count <= tree.leaf_count)
      .sort((a, b) => a.leaf_count - b.leaf_count)
    const first = this.next
    for (const end of ends) {
      const piece = leaves.slice(this.next - first, end.leaf_count - first)
      if (piece.length > 0 && !(await this.passOn(piece, end, slot))) return false
    }
    return true
  }

  /** Appends the leaves up to a state of the chain; passes them on only if the roots agree there. */
  private async passOn(piece: Uint8Array[], end: NoteTreeState, slot: number): Promise<boolean> {
    const mirrored = await this.hash.leaves(this.next, piece.length)
    if (mirrored.some((leaf, at) => !equalBytes(leaf, piece[at]!))) return false
    const own = await this.hash.appendLeaves(this.next, piece)
    // A tree that is ahead can only be compared at a later state.
    if (own.leaf_count > end.leaf_count) return true
    if (own.leaf_count < end.leaf_count || !this.agree(own, end)) return false
    await this.sink.leaves(this.next, piece, slot)
    this.next = end.leaf_count
    return true
  }

  private agree(own: NoteTreeState, chain: NoteTreeState): boolean {
    if (own.leaf_count !== chain.leaf_count || !equalBytes(own.root, chain.root)) return false
    this.states.verified({ leaf_count: chain.leaf_count, root: chain.root })
    return true
  }

  /** Leaves `from` to `to`, exclusive; undefined while the node's history does not show all of them yet. */
  private async collect(from: number, to: number): Promise<Uint8Array[] | undefined> {
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
