/** Whether a vault accepts a state of its note tree as cited. */
import { equalBytes } from '../../../protocol/bytes'
import type { RingAccount, TreeAccount } from '../../../protocol/vault/accounts'

/** True when `(leaf_count, root)` is the note tree's state now or one the ring still holds. */
export function isKnownState(
  state: { leaf_count: number; root: Uint8Array },
  tree: TreeAccount,
  ring: RingAccount,
): boolean {
  const same = (other: { leaf_count: number; root: Uint8Array }): boolean =>
    other.leaf_count === state.leaf_count && equalBytes(other.root, state.root)
  return same(tree) || ring.states.some(same)
}
