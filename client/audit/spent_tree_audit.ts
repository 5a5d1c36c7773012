/** Rebuilds the tree of spent nullifiers from the settlement batches and compares it with the vault's config account. */
import { equalBytes, toHex } from '../../protocol/bytes'
import { SpentTree } from '../../protocol/spent_tree'
import type { VaultEvent } from '../../protocol/vault/events'
import type { SettledEvent } from '../../protocol/vault/settled_event'
import type { VaultState } from '../chain/read_vault'
import type { RootAudit } from './chain_audit'

/** Nullifiers enter batch by batch; one that escaped from a frozen vault may be in none. */
export function auditSpentTree(events: readonly VaultEvent[], { config }: VaultState): RootAudit {
  const { last_batch, spent_count: count, spent_root: expected } = config
  const batches = events.filter((event) => event.kind === 'settled').sort((a, b) => a.batch - b.batch)
  const settled = batches.filter(({ batch }) => batch <= last_batch)
  const gap = settled.findIndex(({ batch }, at) => batch !== at + 1)
  if (gap !== -1 || settled.length < last_batch) {
    const missing = `settlement batch ${(gap === -1 ? settled.length : gap) + 1}`
    return { count, expected, found: undefined, faults: [], missing }
  }
  const faults: string[] = []
  const tree = new SpentTree()
  try {
    tree.insertBatches(settled.map(({ nullifiers }) => nullifiers))
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    return { count, expected, found: undefined, faults: [firstDifference(settled)], missing: undefined }
  }
  const found = tree.root()
  if (tree.spent_count !== count || !equalBytes(found, expected)) faults.push(firstDifference(settled))
  for (const event of events)
    if (event.kind === 'escaped' && tree.has(event.nullifier))
      faults.push(`nullifier ${toHex(event.nullifier)} was settled and escaped too`)
  return { count, expected, found, faults, missing: undefined }
}

/** Goes through the batches again, with the root and count that each itself names. */
function firstDifference(settled: readonly SettledEvent[]): string {
  const tree = new SpentTree()
  for (const { batch, nullifiers, spent_count, spent_root } of settled) {
    try {
      tree.insert(nullifiers)
    } catch (error) {
      if (!(error instanceof RangeError)) throw error
      return `settlement batch ${batch}: ${error.message}`
    }
    if (tree.spent_count !== spent_count || !equalBytes(tree.root(), spent_root))
      return `settlement batch ${batch} is the first whose spent root is not that of its nullifiers`
  }
  return 'every batch agrees with itself; the account holds another spent root'
}
