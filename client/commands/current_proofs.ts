/** The public history up to now, kept beside the wallet and checked against the vault. */
import type { ChainReader } from '../chain/chain_access'
import { keptProofs } from '../chain/kept_proofs'
import type { VaultProofs } from '../exit/vault_proofs'
import type { CommandOptions } from './options'

/** Transactions between two lines of progress. */
const PROGRESS_EVERY = 1_000

/** @throws HistoryIncomplete, NotAVault, ProofUnavailable */
export async function currentProofs(options: CommandOptions, chain: ChainReader): Promise<VaultProofs> {
  const path = historyPath(options)
  const progress = (count: number): void => {
    if (count % PROGRESS_EVERY === 0) console.error(`${count} transactions read`)
  }
  const { proofs, kept, read } = await keptProofs(chain, options.program(), path, progress)
  const { history, vault } = proofs
  const held = `${history.leaves.length} leaves, ${history.spent.size} nullifiers`
  console.log(`history      ${held}: both roots are those of the vault at slot ${vault.slot}`)
  console.log(`             ${read} transactions read, ${kept} known before (${path})`)
  return proofs
}

export function historyPath(options: CommandOptions): string {
  return `${options.text('wallet')}.history`
}
