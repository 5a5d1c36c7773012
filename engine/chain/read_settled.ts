/** Every settlement batch the chain has finalized, from its events alone: what a venue without a journal starts from. */
import { getBase58Encoder } from '@solana/kit'
import type { SettledBatch } from '../ports'
import type { ChainClient } from './chain_client'
import { eventHistory } from './event_history'

/** Batches with an id above `after`, ascending and without a gap. @throws HistoryIncomplete, ChainUnavailable */
export async function readSettled(
  client: Pick<ChainClient, 'rpc' | 'address'>,
  after: number,
): Promise<SettledBatch[]> {
  const batches: SettledBatch[] = []
  for await (const events of eventHistory(client, client.address.config, 'finalized')) {
    for (const { event, signature, slot } of events) {
      if (event.kind !== 'settled' || event.batch <= after) continue
      const bytes = new Uint8Array(getBase58Encoder().encode(signature))
      batches.push({ batch_id: event.batch, nullifiers: event.nullifiers, signature: bytes, slot })
    }
    if (batches.at(-1)?.batch_id === after + 1) break
  }
  batches.reverse()
  const missing = batches.findIndex((batch, at) => batch.batch_id !== after + 1 + at)
  if (missing !== -1) throw new HistoryIncomplete(after + 1 + missing)
  return batches
}

/** No endpoint has the whole history. */
export class HistoryIncomplete extends Error {
  override readonly name = 'HistoryIncomplete'
  constructor(readonly batch_id: number) {
    super(
      `the history of the vault lacks settlement batch ${batch_id}: name an RPC endpoint that keeps all of it`,
    )
  }
}
