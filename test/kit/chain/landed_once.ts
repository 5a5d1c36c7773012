/** What the finalized chain shows of settlement: every batch once, in order, with its payload. */
import { expect } from 'bun:test'
import { chainAddresses } from '../../../engine/chain/client/chain_client'
import { RpcPool } from '../../../engine/chain/client/rpc_pool'
import { eventHistory } from '../../../engine/chain/client/vault_events'
import { toHex } from '../../../protocol/bytes'
import type { SettledEvent } from '../../../protocol/vault/events'
import type { VaultWorld } from './vault_world'

/** Settled batches as anybody reads them from the finalized chain, oldest first. */
async function settledOnChain(world: VaultWorld): Promise<SettledEvent[]> {
  const rpc = new RpcPool([world.chain.url], 5_000)
  const { address } = chainAddresses(world.program)
  const settled: SettledEvent[] = []
  for await (const events of eventHistory({ rpc, address }, address.config, 'finalized')) {
    for (const { event } of events) if (event.kind === 'settled') settled.unshift(event)
  }
  return settled
}

export async function expectLandedOnce(world: VaultWorld, batches: number): Promise<void> {
  const settled = await settledOnChain(world)
  expect(settled.map((event) => event.batch)).toEqual(Array.from({ length: batches }, (_, at) => at + 1))
  for (const event of settled) {
    const payload = world.outbox.payloads.get(event.batch)!
    expect(event.nullifiers.map(toHex)).toEqual(payload.nullifiers.map(toHex))
    expect(event.outputs.map(({ commitment }) => toHex(commitment))).toEqual(
      payload.outputs.map(({ commitment }) => toHex(commitment)),
    )
  }
  expect(world.outbox.violations).toEqual([])
  expect(world.sink.violations).toEqual([])
}
