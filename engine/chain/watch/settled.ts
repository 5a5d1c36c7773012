/** Finds landed settlement batches: one by its id, or all of them from events. */

import type { BatchStage, SettledBatch } from '../../ports'
import type { ChainClient } from '../client/chain_client'
import type { VaultReader } from '../client/read_vault'
import { textOf } from '../client/rpc_pool'
import { eventHistory, type LandedEvent, vaultEvents } from '../client/vault_events'

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
