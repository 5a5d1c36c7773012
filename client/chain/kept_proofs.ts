/** Makes proofs from a history kept on disk, so that a node is asked only for newer transactions. Bun and Node. */
import { ProofUnavailable, VaultProofs } from '../exit/vault_proofs'
import { extendHistory, type KeptTransaction, loadHistory } from '../wallet/history_file'
import { HistoryIncomplete, vaultHistory } from '../wallet/vault_history'
import { type ChainReader, patientRead } from './chain_access'
import { eventsOf, type ReadHistoryOptions, readVaultTransactions } from './read_history'
import { readVaultState, type VaultState } from './read_vault'

export type KeptProofs = {
  proofs: VaultProofs
  /** Transactions found on disk. */
  kept: number
  /** Transactions read from the node. */
  read: number
}

/**
 * Checked proofs: both trees, rebuilt from the whole history, have the roots of the finalized vault. When a kept history
 * with the newer transactions does not, everything is read again.
 * @param path file of the history, extended before this returns
 * @throws HistoryIncomplete, NotAVault; ProofUnavailable when the fresh history differs too
 */
export async function keptProofs(
  chain: ChainReader,
  program_id: string,
  path: string,
  progress?: (transactions: number) => void,
): Promise<KeptProofs> {
  const options: ReadHistoryOptions = { commitment: 'finalized', ...(progress && { progress }) }
  // The state first: a history read after it covers it.
  const vault = await readVaultState(chain, program_id)
  const of = { genesis_hash: await patientRead(() => chain.rpc.getGenesisHash().send()), program_id }
  const kept = loadHistory(path, of)
  const fresh = await readVaultTransactions(chain, program_id, kept.transactions, options)
  const proofs = checked([...kept.transactions, ...fresh], vault, kept.transactions.length > 0)
  if (proofs !== undefined) {
    extendHistory(path, of, kept, fresh)
    return { proofs, kept: kept.transactions.length, read: fresh.length }
  }
  const all = await readVaultTransactions(chain, program_id, [], options)
  const fresh_proofs = checked(all, vault, false)!
  extendHistory(path, of, { transactions: [], sealed_bytes: 0 }, all)
  return { proofs: fresh_proofs, kept: 0, read: all.length }
}

/** Undefined when `again` and the history is the fault: a full read may help. */
function checked(
  transactions: readonly KeptTransaction[],
  vault: VaultState,
  again: boolean,
): VaultProofs | undefined {
  try {
    const proofs = new VaultProofs(vaultHistory(transactions.flatMap(({ data }) => eventsOf(data))), vault)
    proofs.check()
    return proofs
  } catch (error) {
    if (again && (error instanceof ProofUnavailable || error instanceof HistoryIncomplete)) return undefined
    throw error
  }
}
