/** Finds how entries of the payout queue were closed, from the events of the transactions that closed them. */
import type { PayoutStage } from '../../ports'
import type { ChainClient } from '../client/chain_client'
import type { VaultReader } from '../client/read_vault'
import { textOf } from '../client/rpc_pool'
import type { Level } from '../client/slot_view'
import { eventHistory, type LandedEvent, type SlotWindow, vaultEvents } from '../client/vault_events'

/** `whole`: no gap ended the search. */
type Found = { stages: Map<number, PayoutStage>; whole: boolean }

/**
 * Outcomes of closed payouts as a quorum of providers shows them, in the order of `numbers`. Tries `signatures` first, then
 * the history of the queue in `window`, because anyone may pay. Omits a payout of which no quorum serves the transaction;
 * `whole` means that a quorum serves all of the window, so that it is not there.
 * @throws ChainUnavailable
 */
export async function agreedPaid(
  { rpc, address, health }: Pick<ChainClient, 'rpc' | 'address' | 'health'>,
  numbers: readonly number[],
  signatures: readonly Uint8Array[],
  level: Level,
  window: SlotWindow,
): Promise<{ stages: PayoutStage[]; whole: boolean }> {
  const answers = await rpc.all((reader) =>
    findPaid({ rpc: reader, address }, numbers, signatures, level, window),
  )
  const stages = numbers.flatMap((number) => {
    const votes = answers.map(({ at, value }) => ({ at, value: value.stages.get(number) }))
    return health.decide('paid', votes, textOf, (stage) => stage === undefined) ?? []
  })
  return { stages, whole: answers.filter(({ value }) => value.whole).length >= rpc.quorum }
}

async function findPaid(
  client: VaultReader,
  numbers: readonly number[],
  signatures: readonly Uint8Array[],
  level: Level,
  window: SlotWindow,
): Promise<Found> {
  const stages: Found['stages'] = new Map()
  const wanted = new Set(numbers)
  for (const signature of signatures) {
    take(stages, wanted, await vaultEvents(client, signature, level), level)
    if (wanted.size === 0) return { stages, whole: true }
  }
  const history = eventHistory(client, client.address.queue, level, window)
  while (wanted.size > 0) {
    const { done, value: events } = await history.next()
    if (done) return { stages, whole: events }
    take(stages, wanted, events, level)
    // A payout is closed after it was queued.
    for (const { event } of events)
      if (event.kind === 'settled') for (const { number } of event.payouts) wanted.delete(number)
  }
  return { stages, whole: true }
}

/** Moves the payouts that `events` close from `wanted` to `found`. */
function take(
  found: Found['stages'],
  wanted: Set<number>,
  events: LandedEvent[] | undefined,
  stage: Level,
): void {
  for (const { event, signature, slot } of events ?? []) {
    if (event.kind !== 'paid' || !wanted.delete(event.number)) continue
    const { number, refund } = event
    const closed = { number, stage, signature, slot }
    found.set(
      number,
      refund
        ? {
            ...closed,
            outcome: 'refunded',
            refund_commitment: refund.commitment,
            refund_leaf_index: refund.leaf_index,
          }
        : { ...closed, outcome: 'paid' },
    )
  }
}
