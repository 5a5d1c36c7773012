/** Reads the vault's events: of one transaction, or of its whole history from the newest back. */

import { type Address, decodeTransactionFromRpcResponse, type Signature } from '@solana/kit'
import { decodeBase58, encodeBase58 } from '../../../protocol/base58'
import { decodeEvent, innerDataOf, type VaultEvent } from '../../../protocol/vault/events'
import type { VaultReader } from './read_vault'
import { wholeOf } from './rpc_pool'

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
