/** Reads every event of a vault from its transactions on one node. */
import { decodeTransactionFromRpcResponse, type Signature } from '@solana/kit'
import { vaultAddresses } from '../../protocol/vault/addresses'
import { decodeEvent, innerDataOf, type VaultEvent } from '../../protocol/vault/events'
import { SIGNATURES_PAGE_MAX, TRANSACTIONS_PARALLEL_MAX } from '../limits'
import type { KeptTransaction } from '../wallet/history_file'
import { HistoryIncomplete, type VaultHistory, vaultHistory } from '../wallet/vault_history'
import { addressOf, type ChainReader, patientRead } from './chain_access'
import { programBytes } from './read_vault'

/**
 * Data of the inner instructions to the program in one transaction, in order. Events are among them: the program emits
 * them as calls to itself, not as log text. Empty for a failed transaction, undefined when the node does not serve it.
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

/** The events among inner instructions. */
export function eventsOf(data: readonly Uint8Array[]): VaultEvent[] {
  return data.flatMap((one) => decodeEvent(one) ?? [])
}

export type ReadHistoryOptions = {
  /** Default `finalized`: none of it can be rolled back. */
  commitment?: 'confirmed' | 'finalized'
  /** Signatures per page; at most and by default 1,000. */
  page_size?: number
  /** Receives the count of transactions read so far. */
  progress?: (transactions: number) => void
}

/** The whole history, indexed for a wallet's lookups. @throws HistoryIncomplete */
export async function readVaultHistory(
  chain: ChainReader,
  program_id: string,
  options: ReadHistoryOptions = {},
): Promise<VaultHistory> {
  return vaultHistory(await readVaultEvents(chain, program_id, options))
}

/** Every event; those of one transaction stay in order. @throws HistoryIncomplete when a transaction is not served */
export async function readVaultEvents(
  chain: ChainReader,
  program_id: string,
  options: ReadHistoryOptions = {},
): Promise<VaultEvent[]> {
  const transactions = await readVaultTransactions(chain, program_id, [], options)
  return transactions.flatMap(({ data }) => eventsOf(data))
}

/**
 * Walks back through the transactions that name the tree account, as deposits, batches, payments, exit requests and
 * refusals all do, to the first one or to the slot of the newest `known` one. Within that slot signatures decide what is
 * known, because nodes may order it differently. Newest first, without the known ones.
 * @throws HistoryIncomplete when the node lists a transaction that it does not serve
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
