/** Note tree states that the chain finalized and the own tree reproduces: only these may be cited by a settlement. */
import { toHex } from '../../protocol/bytes'
import type { VaultSnapshot } from './read_vault'

export type NoteTreeState = { leaf_count: number; root: Uint8Array }

/** The chain keeps 128 earlier states; older ones could not be cited anyway. */
const KEPT = 512

export class KnownStates {
  readonly #roots = new Map<number, string>()

  verified(state: NoteTreeState): void {
    this.#roots.set(state.leaf_count, toHex(state.root))
    const oldest = this.#roots.keys().next().value
    if (this.#roots.size > KEPT && oldest !== undefined) this.#roots.delete(oldest)
  }

  isVerified(state: NoteTreeState): boolean {
    return this.#roots.get(state.leaf_count) === toHex(state.root)
  }

  /**
   * A verified state with at least `leaf_count_min` leaves that the program would accept now: the newest kept one, and
   * only without such a one the current, which a deposit landing first makes unknown.
   */
  cite(snapshot: VaultSnapshot, leaf_count_min: number): NoteTreeState | undefined {
    const kept = this.citeKept(snapshot, leaf_count_min)
    if (kept) return kept
    const { tree } = snapshot
    return tree.leaf_count >= leaf_count_min && this.isVerified(tree) ? tree : undefined
  }

  /** The newest kept one of these: it stays known while batches land that come first. */
  citeKept({ ring }: VaultSnapshot, leaf_count_min: number): NoteTreeState | undefined {
    return ring.states.findLast((state) => state.leaf_count >= leaf_count_min && this.isVerified(state))
  }
}
