/**
 * Makes proofs of inclusion and of spending from public history alone. Note tree and spent log are rebuilt and compared
 * with the vault's accounts first, so a proof is either valid or not made.
 */
import { equalBytes, toHex } from '../../protocol/bytes'
import { MerkleTree } from '../../protocol/notes/merkle_tree'
import { SpentLog, spentLogLeaf } from '../../protocol/notes/spent_log'
import type { RingAccount } from '../../protocol/vault/accounts'
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
  not_spent: 'the note is not spent, so its request stays open',
  history_differs: 'the history does not lead to the roots of the vault: ask another node',
} as const

type Inclusion = {
  leaf_index: number
  cited_leaf_count: number
  cited_root: Uint8Array
  /** 40 siblings from the leaf upwards. */
  siblings: Uint8Array[]
}
type Spending = {
  cited_spent_root: Uint8Array
  batch: number
  /** All of the batch. */
  nullifiers: Uint8Array[]
  /** 40 siblings of the batch's leaf, from the leaf upwards. */
  path: Uint8Array[]
}

/** Read `vault` before `history`, so that the history covers it. */
export class VaultProofs {
  private readonly trees = new Map<number, MerkleTree>()
  private checked_log: CheckedLog | undefined

  constructor(
    readonly history: VaultHistory,
    readonly vault: VaultState,
  ) {}

  /** Rebuilds note tree and spent log and compares their roots with the accounts. @throws ProofUnavailable */
  check(): void {
    const { leaf_count, root } = this.vault.tree
    this.treeOf(leaf_count, root)
    this.spentLog()
  }

  /**
   * Cites the newest ring state that covers the note, else the current one: an append may replace the current state
   * before the transaction lands, and the ring states stay valid.
   * @throws ProofUnavailable
   */
  inclusion(commitment: Uint8Array): Inclusion {
    const leaf_index = this.history.leaves.findIndex((leaf) => equalBytes(leaf, commitment))
    const { tree, ring } = this.vault
    if (leaf_index === -1 || leaf_index >= tree.leaf_count) throw new ProofUnavailable('not_in_tree')
    const kept = ring.states.findLast((state) => state.leaf_count > leaf_index)
    const { leaf_count, root } = kept ?? tree
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

  /** Rejects a note that a batch of the checked history spent. @throws ProofUnavailable */
  requireUnspent(nullifier: Uint8Array): void {
    this.spentLog()
    if (this.history.spent.has(toHex(nullifier))) throw new ProofUnavailable('spent')
  }

  /**
   * Shows the batch that spent a nullifier, under the newest ring state that covers it, else under the current root.
   * @throws ProofUnavailable
   */
  spending(nullifier: Uint8Array): Spending {
    const { last_batch } = this.vault.config
    const { log, ring_batches } = this.spentLog()
    const batch = this.history.spent.get(toHex(nullifier))
    if (batch === undefined || batch > last_batch) throw new ProofUnavailable('not_spent')
    const count = [...ring_batches.values()].findLast((batches) => batches >= batch) ?? last_batch
    const nullifiers = [...this.history.nullifier_batches[batch - 1]!]
    return { cited_spent_root: log.root(count), batch, nullifiers, path: log.siblings(batch - 1, count) }
  }

  private spentLog(): CheckedLog {
    if (this.checked_log !== undefined) return this.checked_log
    const { config, tree, ring } = this.vault
    const { spent_count, last_batch } = config
    const batches = this.history.nullifier_batches.slice(0, last_batch)
    const { log, ring_batches } = rebuildLog(batches, ring)
    const spent = batches.reduce((sum, { length }) => sum + length, 0)
    if (log.batch_count !== last_batch || spent !== spent_count || !equalBytes(log.root(), tree.spent_root))
      throw new ProofUnavailable('history_differs')
    this.checked_log = { log, ring_batches }
    return this.checked_log
  }
}

type CheckedLog = {
  log: SpentLog
  /** Batches in the log, by hex of the root, at each state of the ring; ascending. */
  ring_batches: ReadonlyMap<string, number>
}

export function rebuildLog(batches: readonly (readonly Uint8Array[])[], ring: RingAccount): CheckedLog {
  const kept = new Set(ring.states.map(({ spent_root }) => toHex(spent_root)))
  const log = new SpentLog()
  const ring_batches = new Map<string, number>()
  for (const nullifiers of [undefined, ...batches]) {
    if (nullifiers !== undefined) log.append(spentLogLeaf(log.batch_count + 1, nullifiers))
    const root = toHex(log.root())
    if (kept.has(root)) ring_batches.set(root, log.batch_count)
  }
  return { log, ring_batches }
}
