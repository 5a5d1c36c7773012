/** Reads the vault's events, of one transaction or from the newest back, and finds landed settlement batches in them. */

import { type Address, decodeTransactionFromRpcResponse, type Signature } from '@solana/kit'
import { decodeBase58, encodeBase58 } from '../../../protocol/base58'
import { decodeEvent, innerDataOf, type VaultEvent } from '../../../protocol/vault/events'
import type { BatchStage, SettledBatch } from '../../ports'
import type { ChainClient } from '../client/chain_client'
import type { VaultReader } from '../client/read_vault'
import { textOf, wholeOf } from '../client/rpc_pool'

const PAGE = 100
/** Transactions read at the same time. */
const PARALLEL = 8

/** `(signature, outer, inner)` identifies the event permanently. */
export type LandedEvent = {
  signature: Uint8Array
  outer: number
  inner: number
  slot: number
  event: VaultEvent
}

/**
 * The events of one transaction, from inner instructions that the program sent to itself, never from log text.
 * Empty for a failed transaction; undefined when the node does not serve it at this level.
 * @throws ChainUnavailable
 */
export async function vaultEvents(
  client: VaultReader,
  signature: Uint8Array,
  commitment: 'confirmed' | 'finalized',
): Promise<LandedEvent[] | undefined> {
  const text = encodeBase58(signature) as Signature
  const found = await client.rpc.read((endpoint, abortSignal) =>
    endpoint
      .getTransaction(text, { commitment, encoding: 'base64', maxSupportedTransactionVersion: 1 })
      .send({ abortSignal }),
  )
  if (!found?.meta) return undefined
  if (found.meta.err !== null) return []
  const { compiledMessage, loadedAddresses } = decodeTransactionFromRpcResponse(found)
  const named = { own: compiledMessage.staticAccounts, loaded: loadedAddresses }
  const events: LandedEvent[] = []
  for (const { outer, inner, data } of innerDataOf(
    client.address.program,
    named,
    found.meta.innerInstructions,
  )) {
    const event = decodeEvent(data)
    if (event) events.push({ signature, outer, inner, slot: wholeOf(found.slot), event })
  }
  return events
}

/** Both inclusive. */
export type SlotWindow = { from: number; to: number }

type EventLeaf = { leaf_index: number; commitment: Uint8Array }

/** The leaves that an event appended, in order. */
export function leavesOf(event: VaultEvent): EventLeaf[] {
  if (event.kind === 'deposited') return [{ leaf_index: event.leaf_index, commitment: event.commitment }]
  if (event.kind === 'paid') return event.refund ? [event.refund] : []
  if (event.kind !== 'settled') return []
  return event.outputs.map(({ commitment }, at) => ({ leaf_index: event.first_leaf_index + at, commitment }))
}

/**
 * Successful transactions that name `account`, newest first, each with its events. Reads none outside of `window`, so those
 * of strangers there cost a line of a listing each. Stops early when a node lists a transaction that it does not serve: the
 * caller detects the gap and retries later.
 * @returns whether it read all of the window that the node lists
 * @throws ChainUnavailable
 */
export async function* eventHistory(
  client: VaultReader,
  account: Address,
  commitment: 'confirmed' | 'finalized',
  window: SlotWindow = { from: 0, to: Number.POSITIVE_INFINITY },
): AsyncGenerator<LandedEvent[], boolean> {
  for (let before: Signature | undefined; ; ) {
    const cursor = before
    const page = await client.rpc.read((endpoint, abortSignal) =>
      endpoint
        .getSignaturesForAddress(account, { commitment, limit: PAGE, ...(cursor ? { before: cursor } : {}) })
        .send({ abortSignal }),
    )
    const slots = page.map(({ slot }) => wholeOf(slot))
    const successful = page.filter(({ err }, at) => {
      return err === null && slots[at]! >= window.from && slots[at]! <= window.to
    })
    for (let at = 0; at < successful.length; at += PARALLEL) {
      const reads = successful.slice(at, at + PARALLEL).map((entry) => {
        const signature = decodeBase58(entry.signature, 64)
        return signature && vaultEvents(client, signature, commitment)
      })
      for (const events of await Promise.all(reads)) {
        if (!events) return false
        yield events
      }
    }
    before = page.at(-1)?.signature
    if (page.length < PAGE || !before || slots.at(-1)! < window.from) return true
  }
}

type Level = 'confirmed' | 'finalized'

/**
 * The landed transaction of a batch, as a quorum of providers shows them. Tries the journaled
 * signatures, newest first, then the config account's history. Undefined while no quorum serves it. @throws ChainUnavailable
 */
export async function agreedSettled(
  { rpc, address, health }: Pick<ChainClient, 'rpc' | 'address' | 'health'>,
  batch_id: number,
  signatures: readonly Uint8Array[],
  level: Level,
): Promise<BatchStage | undefined> {
  const answers = await rpc.all((reader) =>
    findSettled({ rpc: reader, address }, batch_id, signatures, level),
  )
  return health.decide('settled', answers, textOf, (stage) => stage === undefined)
}

async function findSettled(
  client: VaultReader,
  batch_id: number,
  signatures: readonly Uint8Array[],
  level: Level,
): Promise<BatchStage | undefined> {
  for (const signature of [...signatures].reverse()) {
    const stage = stageOf(await vaultEvents(client, signature, level), batch_id, level)
    if (stage) return stage
  }
  for await (const events of eventHistory(client, client.address.config, level)) {
    const stage = stageOf(events, batch_id, level)
    if (stage) return stage
    // Batches land in order: after an earlier one, this one is not in the history.
    if (events.some(({ event }) => event.kind === 'settled' && event.batch < batch_id)) return undefined
  }
  return undefined
}

function stageOf(events: LandedEvent[] | undefined, batch_id: number, stage: Level): BatchStage | undefined {
  for (const { event, signature, slot } of events ?? []) {
    if (event.kind !== 'settled' || event.batch !== batch_id) continue
    return { batch_id, stage, signature, slot }
  }
  return undefined
}

/**
 * Every finalized settlement batch with an id above `after`, ascending and without gaps, from events alone: the start of a
 * venue without a journal. One provider may keep no history or invent one: the chain's spent root decides which is true.
 * @throws HistoryIncomplete, ChainUnavailable when no provider gives one
 */
export async function* settledHistories(
  { rpc, address }: Pick<ChainClient, 'rpc' | 'address'>,
  after: number,
): AsyncGenerator<SettledBatch[]> {
  const failures: unknown[] = []
  for (const at of rpc.each.keys()) {
    try {
      yield await readSettled({ rpc: rpc.patient(at), address }, after)
    } catch (error) {
      failures.push(error)
    }
  }
  if (failures.length === rpc.each.length) throw failures[0]
}

async function readSettled(client: VaultReader, after: number): Promise<SettledBatch[]> {
  const batches: SettledBatch[] = []
  for await (const events of eventHistory(client, client.address.config, 'finalized')) {
    for (const { event, signature, slot } of events) {
      if (event.kind !== 'settled' || event.batch <= after) continue
      batches.push({ batch_id: event.batch, nullifiers: event.nullifiers, signature, slot })
    }
    if (batches.at(-1)?.batch_id === after + 1) break
  }
  batches.reverse()
  const missing = batches.findIndex((batch, at) => batch.batch_id !== after + 1 + at)
  if (missing !== -1) throw new HistoryIncomplete(after + 1 + missing)
  return batches
}

/** No endpoint serves the whole history. */
class HistoryIncomplete extends Error {
  override readonly name = 'HistoryIncomplete'
  constructor(readonly batch_id: number) {
    super(
      `the history of the vault lacks settlement batch ${batch_id}: name an RPC endpoint that keeps all of it`,
    )
  }
}
