/**
 * Brings a vault's history up to now: an archive first, then the transactions after it, checked against the vault. Bun and
 * Node.
 */

import { equalBytes, readU64Le, u64Le, utf8 } from '../../protocol/bytes'
import { sha256 } from '../../protocol/sha256'
import { TacitError } from '../../protocol/tacit_error'
import type { VaultEvent } from '../../protocol/vault/events'
import { Archive, type ArchivedTransaction, ArchiveRejected } from '../archive/archive'
import { ProofUnavailable, VaultProofs } from '../exit/prepare_exit'
import { ARCHIVE_WRITE_EVERY, CONFIRM_DECOYS, TRANSACTIONS_PARALLEL_MAX } from '../limits'
import { HistoryIncomplete, vaultHistory } from '../wallet/vault_history'
import { type ChainReader, nodesOf, patientRead } from './chain_access'
import {
  eventsOf,
  listTransactions,
  type ReadHistoryOptions,
  readEventData,
  readTransactions,
} from './read_history'
import { readVaultState, type VaultState } from './read_vault'

/** Nodes contradict each other: one of them lies, or is on a fork. */
export class NodesDisagree extends TacitError<{ finding: string }> {
  override readonly name = 'NodesDisagree'
  readonly code = 'nodes_disagree'
  constructor(finding: string) {
    super(`${finding}: one of the nodes is wrong, ask others`, { finding })
  }
}

/** The nodes have another batch than an archive: one of both is wrong. */
export class BatchDiffers extends ArchiveRejected {}

/**
 * `folder`: the caller's archive, which every reading extends; `archive`: folder or URL of another's, only read; neither:
 * everything is read from the node.
 */
export type HistoryFrom = { folder?: string; archive?: string }

/** `kept`: an archive supplied it, and no node in this reading. */
type Batch = { transaction: ArchivedTransaction; kept: boolean }
type ReadEvents = {
  /** As each node shows it, read before the events. */
  vaults: readonly VaultState[]
  events: readonly VaultEvent[]
  /** By number. */
  batches: ReadonlyMap<number, Batch>
  archive: Archive
  /** Transactions that the archive had. */
  kept: number
  /** Transactions that a node was asked for. */
  read: number
  /** Of a reading from the start, which replaces the archive once it is checked. */
  unwritten: ArchivedTransaction[]
}
export type CurrentHistory = Omit<ReadEvents, 'events' | 'unwritten'> & {
  /** Both trees, rebuilt from the whole history, have the roots of the finalized vault. */
  proofs: VaultProofs
}

/**
 * Reads an archive and the transactions after it. The caller's archive is read again from the node if it does not lead to the
 * vault; another's is rejected.
 * @param again reads everything from the nodes, and replaces the caller's archive
 * @throws HistoryIncomplete, ProofUnavailable, NotAVault, ArchiveRejected, NodesDisagree
 */
export async function currentHistory(
  chain: ChainReader,
  program_id: string,
  from: HistoryFrom,
  options: ReadHistoryOptions = {},
  again = false,
): Promise<CurrentHistory> {
  const { unwritten, ...read } = await readEventsFrom(chain, program_id, from, options, again)
  try {
    const current = checked(chain, read)
    // Only now: a node that lacks old transactions must not replace an archive that has them.
    if (again && from.folder !== undefined) read.archive.extend(unwritten, newest(read.vaults).slot)
    return current
  } catch (error) {
    const unfit = error instanceof ProofUnavailable || error instanceof HistoryIncomplete
    if (!unfit || read.kept === 0) throw error
    if (from.archive === undefined) return currentHistory(chain, program_id, from, options, true)
    throw new ArchiveRejected(
      `${from.archive} and what the node has after it do not lead to the vault: ${error.message}; without --archive everything is read from the node`,
    )
  }
}

/** Nothing is compared with the vault: that is `currentHistory`, or an audit. */
export async function readEventsFrom(
  chain: ChainReader,
  program_id: string,
  from: HistoryFrom,
  options: ReadHistoryOptions = {},
  again = false,
): Promise<ReadEvents> {
  const nodes = nodesOf(chain)
  // The states first: a history read after them covers them.
  const vaults = await Promise.all(nodes.map((node) => readVaultState(node, program_id)))
  const chains = await Promise.all(nodes.map(({ rpc }) => patientRead(() => rpc.getGenesisHash().send())))
  if (new Set(chains).size > 1) throw new NodesDisagree('the nodes are of different clusters')
  const where = from.archive ?? from.folder
  const of = { genesis_hash: chains[0]!, program_id }
  const archive = where === undefined || again ? new Archive(where ?? '', of) : await Archive.load(where, of)
  if (from.archive !== undefined && archive.block_count === 0)
    throw new ArchiveRejected(`${from.archive} has no block of an archive: check --archive`)
  const own = from.archive === undefined
  const kept = [...archive.transactions]
  const listed = await listTransactions(chain, program_id, archive, options)
  const fresh: ArchivedTransaction[] = []
  let unwritten: ArchivedTransaction[] = []
  const write = (slot: number): void => {
    if (again) return
    if (own && where !== undefined) archive.extend(unwritten, Math.max(archive.through_slot, slot))
    unwritten = []
  }
  for await (const transactions of readTransactions(chain, program_id, listed, options)) {
    fresh.push(...transactions)
    unwritten.push(...transactions)
    if (unwritten.length >= ARCHIVE_WRITE_EVERY) write(unwritten.at(-1)!.slot)
  }
  if (listed.length > 0) write(newest(vaults).slot)
  const events: VaultEvent[] = []
  const batches = new Map<number, Batch>()
  for (const [at, transaction] of [...kept, ...fresh].entries())
    for (const event of eventsOf(transaction.data)) {
      events.push(event)
      if (event.kind === 'settled') batches.set(event.batch, { transaction, kept: at < kept.length })
    }
  return { vaults, events, batches, archive, kept: kept.length, read: listed.length, unwritten }
}

export const newest = (vaults: readonly VaultState[]): VaultState =>
  vaults.reduce((latest, one) => (one.slot > latest.slot ? one : latest))

function checked(chain: ChainReader, { events, ...read }: Omit<ReadEvents, 'unwritten'>): CurrentHistory {
  const proofs = new VaultProofs(vaultHistory(events), newest(read.vaults))
  proofs.check()
  for (const [at, other] of read.vaults.entries())
    if (!proofs.covers(other))
      throw new NodesDisagree(`${nodesOf(chain)[at]!.rpc_url} shows a vault that is not of this history`)
  return { ...read, proofs }
}

const DECOY_DOMAIN = utf8('tacit/decoy/v1')

/**
 * Reads batches again: no root covers a memo, so an archive or a single node can hide a note behind a wrong one. Every named
 * node is asked for the batches of an archive, and for every batch where several are named. Each output of a wallet is in a
 * batch that spent a note of the wallet, so `spent_in`, the batches of its spent notes, is enough. Others are read with them,
 * the same at each call, because a node would otherwise learn which batches are the wallet's.
 * @param seed selects the others.
 * @returns how many batches of `spent_in` fewer than two of the nodes show, or not the only one
 * @throws NodesDisagree, BatchDiffers
 */
export async function confirmBatches(
  chain: ChainReader,
  program_id: string,
  { archive, batches }: CurrentHistory,
  { spent_in, seed }: { spent_in: ReadonlySet<number>; seed: Uint8Array },
): Promise<number> {
  const wanted = new Set(spent_in)
  for (const batch of spent_in)
    for (let at = 0; at < CONFIRM_DECOYS; at++) {
      const draw = readU64Le(sha256(DECOY_DOMAIN, seed, u64Le(batch), Uint8Array.of(at)), 0)
      wanted.add(1 + Number(draw % BigInt(batches.size)))
    }
  const nodes = nodesOf(chain)
  let unserved = 0
  const confirm = async (number: number): Promise<void> => {
    const { transaction, kept } = batches.get(number)!
    if (!kept && nodes.length === 1) return
    const answers = await Promise.all(
      nodes.map((node) => readEventData(node, program_id, transaction.signature, 'finalized')),
    )
    const shown = nodes.flatMap(({ rpc_url }, at) => {
      const data = answers[at]
      return data === undefined ? [] : { rpc_url, data }
    })
    const [first] = shown
    const other = shown.find(({ data }) => !isSame(data, first!.data))
    const has = `${(other ?? first)?.rpc_url} has another batch ${number} than`
    if (other !== undefined) throw new NodesDisagree(`${has} ${first!.rpc_url}`)
    if (first !== undefined && !isSame(first.data, transaction.data)) {
      if (kept) throw new BatchDiffers(`${has} ${archive.where}: one of both is wrong`)
      throw new NodesDisagree(`${has} it or another showed before`)
    }
    if (shown.length < Math.min(2, nodes.length) && spent_in.has(number)) unserved += 1
  }
  // Ascending: the order says nothing about whose they are.
  const ordered = [...wanted].sort((a, b) => a - b)
  for (let at = 0; at < ordered.length; at += TRANSACTIONS_PARALLEL_MAX)
    await Promise.all(ordered.slice(at, at + TRANSACTIONS_PARALLEL_MAX).map(confirm))
  return unserved
}

const isSame = (some: readonly Uint8Array[], others: readonly Uint8Array[]): boolean =>
  some.length === others.length && some.every((one, at) => equalBytes(one, others[at]!))
