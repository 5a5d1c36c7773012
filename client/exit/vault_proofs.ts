/**
 * Makes inclusion and absence proofs from public history alone. Both trees are rebuilt and compared with the vault's
 * accounts first, so a proof is either valid or not made.
 */
import { equalBytes, toHex } from '../../protocol/bytes'
import { MerkleTree } from '../../protocol/notes/merkle_tree'
import { SpentTree } from '../../protocol/notes/spent_tree'
import type { VaultState } from '../chain/read_vault'
import type { VaultHistory } from '../wallet/vault_history'

/** The public data does not prove the claim; `reason` names the cause. */
export class ProofUnavailable extends Error {
  constructor(readonly reason: 'not_in_tree' | 'spent' | 'not_spent' | 'history_differs') {
    super(MEANINGS[reason])
    this.name = 'ProofUnavailable'
  }
}

const MEANINGS = {
  not_in_tree: 'the note is not in the tree of the chain: it has not landed yet, or never will',
  spent: 'the note is spent',
  not_spent: 'the note is not spent, so its request stands',
  history_differs: 'the history does not lead to the roots of the vault: ask another node',
} as const

type Inclusion = {
  leaf_index: number
  cited_leaf_count: number
  cited_root: Uint8Array
  /** 32 siblings from the leaf upwards. */
  siblings: Uint8Array[]
}
type Absence = {
  low_value: Uint8Array
  low_next: Uint8Array
  low_index: number
  siblings: Uint8Array[]
}
type Presence = {
  cited_spent_root: Uint8Array
  next_value: Uint8Array
  leaf_index: number
  path: Uint8Array[]
}

/** Read `vault` before `history`, so that the history covers it. */
export class VaultProofs {
  private readonly trees = new Map<number, MerkleTree>()
  private spent_tree: SpentTree | undefined

  constructor(
    readonly history: VaultHistory,
    readonly vault: VaultState,
  ) {}

  /** Rebuilds both trees and compares their roots with the accounts. @throws ProofUnavailable */
  check(): void {
    const { leaf_count, root } = this.vault.tree
    this.treeOf(leaf_count, root)
    this.spentTree()
  }

  /** @throws ProofUnavailable */
  leafIndexOf(commitment: Uint8Array): number {
    const leaf_index = this.history.leaves.findIndex((leaf) => equalBytes(leaf, commitment))
    if (leaf_index === -1) throw new ProofUnavailable('not_in_tree')
    return leaf_index
  }

  /**
   * Cites the newest ring state that covers the note, else the current one: an append may replace the current state
   * before the transaction lands, and the ring states stay valid.
   * @throws ProofUnavailable
   */
  inclusion(commitment: Uint8Array): Inclusion {
    const leaf_index = this.leafIndexOf(commitment)
    const { tree, ring } = this.vault
    const kept = ring.states.findLast((state) => state.leaf_count > leaf_index)
    return this.inclusionUnder(leaf_index, kept ?? tree)
  }

  /** Under the current state of the tree, as an escape from a frozen vault requires. @throws ProofUnavailable */
  finalInclusion(commitment: Uint8Array): Inclusion {
    return this.inclusionUnder(this.leafIndexOf(commitment), this.vault.tree)
  }

  private inclusionUnder(leaf_index: number, state: { leaf_count: number; root: Uint8Array }): Inclusion {
    const { leaf_count, root } = state
    if (leaf_index >= leaf_count) throw new ProofUnavailable('not_in_tree')
    const siblings = this.treeOf(leaf_count, root).siblings(leaf_index)
    return { leaf_index, cited_leaf_count: leaf_count, cited_root: root, siblings }
  }

  private treeOf(leaf_count: number, root: Uint8Array): MerkleTree {
    let tree = this.trees.get(leaf_count)
    if (tree === undefined) {
      tree = new MerkleTree()
      tree.append(this.history.leaves.slice(0, leaf_count))
      if (tree.leaf_count !== leaf_count || !equalBytes(tree.root(), root))
        throw new ProofUnavailable('history_differs')
      this.trees.set(leaf_count, tree)
    }
    return tree
  }

  /** Absence under the vault's current spent root. @throws ProofUnavailable */
  absence(nullifier: Uint8Array): Absence {
    const { leaf, siblings, present } = this.spentTree().witness(nullifier)
    if (present || this.history.escaped.has(toHex(nullifier))) throw new ProofUnavailable('spent')
    return { low_value: leaf.value, low_next: leaf.next_value, low_index: leaf.index, siblings }
  }

  /** Presence under the vault's current spent root; closes an exit request for a spent note. @throws ProofUnavailable */
  presence(nullifier: Uint8Array): Presence {
    const { leaf, siblings: path, present } = this.spentTree().witness(nullifier)
    if (!present) throw new ProofUnavailable('not_spent')
    const { index: leaf_index, next_value } = leaf
    return { cited_spent_root: this.vault.config.spent_root, next_value, leaf_index, path }
  }

  private spentTree(): SpentTree {
    if (this.spent_tree === undefined) {
      const { spent_count, spent_root, last_batch } = this.vault.config
      const tree = new SpentTree()
      tree.insertBatches(this.history.nullifier_batches.slice(0, last_batch))
      if (tree.spent_count !== spent_count || !equalBytes(tree.root(), spent_root))
        throw new ProofUnavailable('history_differs')
      this.spent_tree = tree
    }
    return this.spent_tree
  }
}
