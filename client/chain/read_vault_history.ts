/** Reads every event of a vault from its transactions on one node: all a wallet needs besides its seed. */
import type { Signature } from '@solana/kit'
import { vaultAddresses } from '../../protocol/vault/addresses'
import type { VaultEvent } from '../../protocol/vault/events'
import { HistoryIncomplete, type VaultHistory, vaultHistory } from '../wallet/vault_history'
import { addressOf, type ChainReader } from './chain_access'
import { patientRead } from './patient_read'
import { programBytes } from './read_vault'
import { readTransactionEvents } from './read_vault_events'

/** The most a node answers. */
const PAGE_MAX = 1_000
/** Transactions read at the same time. */
const PARALLEL = 8

export type ReadHistoryOptions = {
  /** Default `finalized`: nothing of it can be taken back. */
  commitment?: 'confirmed' | 'finalized'
  /** Signatures asked for at once; at most and by default 1,000. */
  page_size?: number
  /** Transactions read so far, for a display of progress. */
  progress?: (transactions: number) => void
}

/** The history, indexed as a wallet looks things up. @throws HistoryIncomplete also when it has a gap */
export async function readVaultHistory(
  chain: ChainReader,
  program_id: string,
  options: ReadHistoryOptions = {},
): Promise<VaultHistory> {
  return vaultHistory(await readVaultEvents(chain, program_id, options))
}

/**
 * Walks the transactions that name the note tree's account (deposits, batches, exit requests and escapes all do) from
 * the newest back to the first; the events of one transaction stay in order.
 * @throws HistoryIncomplete when the node lists a transaction it does not serve
 */
export async function readVaultEvents(
  chain: ChainReader,
  program_id: string,
  options: ReadHistoryOptions = {},
): Promise<VaultEvent[]> {
  const { commitment = 'finalized', page_size = PAGE_MAX, progress } = options
  const tree = addressOf(vaultAddresses(programBytes(program_id)).tree)
  const events: VaultEvent[] = []
  let transactions = 0
  for (let before: Signature | undefined; ; ) {
    const edge = before === undefined ? {} : { before }
    const page = await patientRead(() =>
      chain.rpc.getSignaturesForAddress(tree, { commitment, limit: page_size, ...edge }).send(),
    )
    const successful = page.filter((entry) => entry.err === null)
    for (let at = 0; at < successful.length; at += PARALLEL) {
      const some = successful.slice(at, at + PARALLEL)
      const read = some.map(({ signature }) =>
        readTransactionEvents(chain, program_id, signature, commitment),
      )
      for (const of_one of await Promise.all(read)) {
        if (of_one === undefined) throw new HistoryIncomplete('a transaction the node lists')
        events.push(...of_one)
      }
      transactions += some.length
      progress?.(transactions)
    }
    before = page.at(-1)?.signature
    if (page.length < page_size || before === undefined) return events
  }
}
