/** Reads every event of a vault from its transactions on one node. */

import { decodeTransactionFromRpcResponse, type Signature } from '@solana/kit'
import { vaultAddresses } from '../../protocol/vault/addresses'
import { decodeEvent, innerDataOf, type VaultEvent } from '../../protocol/vault/events'
import { SIGNATURES_PAGE_MAX, TRANSACTIONS_PARALLEL_MAX } from '../limits'
import type { KeptTransaction } from '../wallet/history_file'
import { HistoryIncomplete, type VaultHistory, vaultHistory } from '../wallet/vault_history'
import { addressOf, type ChainReader, patientRead } from './chain_access'
import { programBytes } from './read_vault'

// Events of the vault in landed transactions: instructions the program sent to itself, never log text.

/**
 * Data of the instructions the program got from programs in one transaction, its own events among them, in order; empty
 * for a failed one, undefined when the node does not serve it at `commitment`.
 */
export async function readTransactionData(
  { rpc }: ChainReader,
  program_id: string,
  signature: Signature,
  commitment: 'confirmed' | 'finalized',
): Promise<Uint8Array[] | undefined> {
  const config = { commitment, encoding: 'base64', maxSupportedTransactionVersion: 1 } as const
  const found = await patientRead(() => rpc.getTransaction(signature, config).send())
  if (!found?.meta) return undefined
  if (found.meta.err !== null) return []
  const { compiledMessage, loadedAddresses } = decodeTransactionFromRpcResponse(found)
  const named = { own: compiledMessage.staticAccounts, loaded: loadedAddresses }
  return innerDataOf(program_id, named, found.meta.innerInstructions).map(({ data }) => data)
}

/** The events among them. */
export function eventsOf(data: readonly Uint8Array[]): VaultEvent[] {
  return data.flatMap((one) => decodeEvent(one) ?? [])
}

// Reads every event of a vault from its transactions on one node: all a wallet needs besides its seed.

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

/** Every event; those of one transaction stay in order. @throws HistoryIncomplete */
export async function readVaultEvents(
  chain: ChainReader,
  program_id: string,
  options: ReadHistoryOptions = {},
): Promise<VaultEvent[]> {
  const transactions = await readVaultTransactions(chain, program_id, [], options)
  return transactions.flatMap(({ data }) => eventsOf(data))
}

/**
 * Walks the transactions that name the note tree's account (deposits, batches, exit requests and escapes all do) from
 * the newest back to the first, or to the slot of the newest of those `known`; that slot's are told apart by signature,
 * since nodes may order them differently. Newest first, without the known ones.
 * @throws HistoryIncomplete when the node lists a transaction it does not serve
 */
export async function readVaultTransactions(
  chain: ChainReader,
  program_id: string,
  known: readonly KeptTransaction[],
  options: ReadHistoryOptions = {},
): Promise<KeptTransaction[]> {
  const { commitment = 'finalized', page_size = SIGNATURES_PAGE_MAX, progress } = options
  const tree = addressOf(vaultAddresses(programBytes(program_id)).tree)
  const known_signatures = new Set(known.map(({ signature }) => signature))
  const known_slot = known.reduce((newest, { slot }) => Math.max(newest, slot), -1)
  const read: KeptTransaction[] = []
  for (let before: Signature | undefined; ; ) {
    const edge = before === undefined ? {} : { before }
    const page = await patientRead(() =>
      chain.rpc.getSignaturesForAddress(tree, { commitment, limit: page_size, ...edge }).send(),
    )
    const fresh = page.filter(({ err, signature }) => err === null && !known_signatures.has(signature))
    for (let at = 0; at < fresh.length; at += TRANSACTIONS_PARALLEL_MAX) {
      const some = fresh.slice(at, at + TRANSACTIONS_PARALLEL_MAX).map(async ({ signature, slot }) => {
        const data = await readTransactionData(chain, program_id, signature, commitment)
        if (data === undefined) throw new HistoryIncomplete('a transaction the node lists')
        return { signature, slot: Number(slot), data }
      })
      read.push(...(await Promise.all(some)))
      progress?.(read.length)
    }
    const last = page.at(-1)
    if (last === undefined || page.length < page_size || Number(last.slot) < known_slot) return read
    before = last.signature
  }
}
