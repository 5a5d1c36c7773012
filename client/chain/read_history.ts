/** Lists the transactions of a vault and reads their events, on one node or several. */
import { decodeTransactionFromRpcResponse, type Signature } from '@solana/kit'
import { vaultAddresses } from '../../protocol/vault/addresses'
import { decodeEvent, innerDataOf, type VaultEvent } from '../../protocol/vault/events'
import type { ArchivedTransaction } from '../archive/archive'
import { LISTED_AGAIN_SLOTS, SIGNATURES_PAGE_MAX, TRANSACTIONS_PARALLEL_MAX } from '../limits'
import { HistoryIncomplete, type VaultHistory, vaultHistory } from '../wallet/vault_history'
import { addressOf, type ChainNode, type ChainReader, nodesOf, patientRead } from './chain_access'
import { programBytes } from './read_vault'

type Commitment = 'confirmed' | 'finalized'

/**
 * Data of the events in one transaction, in order: inner instructions that the program sends to itself, not log text.
 * Empty for a failed transaction, undefined when the node does not serve it.
 */
export async function readEventData(
  { rpc }: ChainNode,
  program_id: string,
  signature: string,
  commitment: Commitment,
): Promise<Uint8Array[] | undefined> {
  const config = { commitment, encoding: 'base64', maxSupportedTransactionVersion: 1 } as const
  const found = await patientRead(() => rpc.getTransaction(signature as Signature, config).send())
  if (!found?.meta) return undefined
  if (found.meta.err !== null) return []
  const { compiledMessage, loadedAddresses } = decodeTransactionFromRpcResponse(found)
  const named = { own: compiledMessage.staticAccounts, loaded: loadedAddresses }
  const all = innerDataOf(program_id, named, found.meta.innerInstructions).map(({ data }) => data)
  return all.filter((data) => decodeEvent(data) !== undefined)
}

/** The events in data of inner instructions. */
export function eventsOf(data: readonly Uint8Array[]): VaultEvent[] {
  return data.flatMap((one) => decodeEvent(one) ?? [])
}

export type ReadHistoryOptions = {
  /** Default `finalized`: none of it can be rolled back. */
  commitment?: Commitment
  /** Signatures per page; at most and by default 1,000. */
  page_size?: number
  /** Receives the count of transactions read so far. */
  progress?: (transactions: number) => void
  /** Receives a sentence for each node whose listing differs from another's. */
  notice?: (sentence: string) => void
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
  const listed = await listTransactions(chain, program_id, NOTHING_KNOWN, options)
  const read: VaultEvent[] = []
  for await (const transactions of readTransactions(chain, program_id, listed, options))
    read.push(...transactions.flatMap(({ data }) => eventsOf(data)))
  return read
}

/** The transactions that a reader has: all up to a slot, and the signatures of those it has near that slot. */
export type KnownTransactions = { through_slot: number; transactions: readonly ArchivedTransaction[] }
const NOTHING_KNOWN: KnownTransactions = { through_slot: -1, transactions: [] }
export type Listed = { signature: string; slot: number }

/**
 * The transactions that succeeded, name both the tree and the ring account, as deposits, batches, payments, exit requests
 * and refusals all do, and are not known; oldest first. A transaction that names only one of them costs its place in a
 * listing and is never read. Of several nodes, one that lists it is enough.
 */
export async function listTransactions(
  chain: ChainReader,
  program_id: string,
  known: KnownTransactions,
  options: ReadHistoryOptions,
): Promise<Listed[]> {
  const { tree, ring } = vaultAddresses(programBytes(program_id))
  const from_slot = known.through_slot - LISTED_AGAIN_SLOTS
  const near = known.transactions.filter(({ slot }) => slot >= from_slot)
  const known_signatures = new Set(near.map(({ signature }) => signature))
  const listings = await Promise.all(
    nodesOf(chain).map(async (node) => {
      const of_tree = await listAddress(node, tree, from_slot, options)
      const of_ring = await listAddress(node, ring, from_slot, options)
      return new Map([...of_tree].filter(([signature]) => of_ring.has(signature)))
    }),
  )
  const all = new Map(listings.flatMap((listing) => [...listing]))
  nodesOf(chain).forEach(({ rpc_url }, at) => {
    const lacking = all.size - listings[at]!.size
    if (lacking > 0)
      options.notice?.(`${rpc_url} does not list ${lacking} transactions that another node lists`)
  })
  return [...all]
    .filter(([signature]) => !known_signatures.has(signature))
    .map(([signature, slot]) => ({ signature, slot }))
    .sort((a, b) => a.slot - b.slot)
}

/** Slot by signature, of successful transactions that name the address, from `from_slot` on. */
export async function listAddress(
  { rpc }: ChainNode,
  address: Uint8Array,
  from_slot: number,
  { commitment = 'finalized', page_size = SIGNATURES_PAGE_MAX }: ReadHistoryOptions,
): Promise<Map<string, number>> {
  const listed: [string, number][] = []
  for (let before: Signature | undefined; ; ) {
    const edge = before === undefined ? {} : { before }
    const page = await patientRead(() =>
      rpc.getSignaturesForAddress(addressOf(address), { commitment, limit: page_size, ...edge }).send(),
    )
    for (const { err, signature, slot } of page) if (err === null) listed.push([signature, Number(slot)])
    const last = page.at(-1)
    if (last === undefined || page.length < page_size || Number(last.slot) < from_slot) break
    before = last.signature
  }
  return new Map(listed.reverse().filter(([, slot]) => slot >= from_slot))
}

/**
 * Reads transactions in the order of the list, some at a time; those without an event are left out. Of several nodes the
 * first that serves a transaction is believed. @throws HistoryIncomplete when none serves it
 */
export async function* readTransactions(
  chain: ChainReader,
  program_id: string,
  listed: readonly Listed[],
  { commitment = 'finalized', progress }: ReadHistoryOptions,
): AsyncGenerator<ArchivedTransaction[]> {
  for (let at = 0; at < listed.length; at += TRANSACTIONS_PARALLEL_MAX) {
    const some = listed.slice(at, at + TRANSACTIONS_PARALLEL_MAX)
    const read = await Promise.all(
      some.map(async (one) => {
        for (const node of nodesOf(chain)) {
          const data = await readEventData(node, program_id, one.signature, commitment)
          if (data !== undefined) return { ...one, data }
        }
        throw new HistoryIncomplete(`transaction ${one.signature} of slot ${one.slot}, which the node lists,`)
      }),
    )
    progress?.(at + some.length)
    yield read.filter(({ data }) => data.length > 0)
  }
}
