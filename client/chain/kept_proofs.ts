/** Proofs from a history that is kept on disk and extended: a node is asked only for what came since the last time. */
import { ProofUnavailable, VaultProofs } from '../exit/vault_proofs'
import { extendHistory, type KeptTransaction, loadHistory } from '../wallet/history_file'
import { HistoryIncomplete, vaultHistory } from '../wallet/vault_history'
import { type ChainReader, patientRead } from './chain_access'
import { eventsOf, type ReadHistoryOptions, readVaultTransactions } from './read_history'
import { readVaultState, type VaultState } from './read_vault'

export type KeptProofs = {
  proofs: VaultProofs
  /** Transactions that were on disk, and that the node was asked for. */
  kept: number
  read: number
}

/**
 * The proofs are checked: both trees, rebuilt from the whole history, have the roots of the finalized vault. A kept history
 * that does not lead there with what came since is forgotten and everything is read again.
 * @throws HistoryIncomplete, NotAVault; ProofUnavailable when a history read anew does not lead there either
 */
export async function keptProofs(
  chain: ChainReader,
  program_id: string,
  path: string,
  progress?: (transactions: number) => void,
): Promise<KeptProofs> {
  const options: ReadHistoryOptions = { commitment: 'finalized', ...(progress && { progress }) }
  // The state first: the history read after it reaches at least as far.
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
  const anew = checked(all, vault, false)!
  extendHistory(path, of, { transactions: [], sealed_bytes: 0 }, all)
  return { proofs: anew, kept: 0, read: all.length }
}

/** Undefined where another try may help. */
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
