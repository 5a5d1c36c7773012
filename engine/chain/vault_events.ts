/** Events of the vault in one transaction: inner instructions the program sent to itself, never log text. */
import { decodeTransactionFromRpcResponse, type Signature } from '@solana/kit'
import { decodeEvent, type VaultEvent } from '../../protocol/vault/events'
import { innerDataOf } from '../../protocol/vault/inner_data'
import type { ChainClient } from './chain_client'

/** `(signature, outer, inner)` names an event for ever. */
export type LandedEvent = {
  signature: Signature
  outer: number
  inner: number
  slot: number
  event: VaultEvent
}

/** Empty for a failed transaction; undefined when the node does not serve it at this level. @throws ChainUnavailable */
export async function vaultEvents(
  client: Pick<ChainClient, 'rpc' | 'address'>,
  signature: Signature,
  commitment: 'confirmed' | 'finalized',
): Promise<LandedEvent[] | undefined> {
  const found = await client.rpc.read((endpoint, abortSignal) =>
    endpoint
      .getTransaction(signature, { commitment, encoding: 'base64', maxSupportedTransactionVersion: 1 })
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
    if (event) events.push({ signature, outer, inner, slot: Number(found.slot), event })
  }
  return events
}

export type EventLeaf = { leaf_index: number; commitment: Uint8Array }

/** Leaves an event appended, in order. */
export function leavesOf(event: VaultEvent): EventLeaf[] {
  if (event.kind === 'deposited') return [{ leaf_index: event.leaf_index, commitment: event.commitment }]
  if (event.kind !== 'settled') return []
  const outputs = event.outputs.map(({ commitment }, at) => ({
    leaf_index: event.first_leaf_index + at,
    commitment,
  }))
  return [...outputs, ...event.payouts.flatMap(({ refund }) => (refund ? [refund] : []))]
}
