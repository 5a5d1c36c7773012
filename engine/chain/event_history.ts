/** Walks the vault's transactions from the newest back and hands out their events. */
import type { Address, Signature } from '@solana/kit'
import type { ChainClient } from './chain_client'
import { type LandedEvent, vaultEvents } from './vault_events'

const PAGE = 100
/** Transactions read at the same time. */
const PARALLEL = 8

/**
 * Successful transactions that name `account`, newest first, each with its events. Stops early when a node lists a
 * transaction that it does not serve: the caller sees a gap and asks again later.
 * @throws ChainUnavailable
 */
export async function* eventHistory(
  client: Pick<ChainClient, 'rpc' | 'address'>,
  account: Address,
  commitment: 'confirmed' | 'finalized',
): AsyncGenerator<LandedEvent[]> {
  for (let before: Signature | undefined; ; ) {
    const cursor = before
    const page = await client.rpc.read((endpoint, abortSignal) =>
      endpoint
        .getSignaturesForAddress(account, { commitment, limit: PAGE, ...(cursor ? { before: cursor } : {}) })
        .send({ abortSignal }),
    )
    const successful = page.filter((entry) => entry.err === null)
    for (let at = 0; at < successful.length; at += PARALLEL) {
      const reads = successful
        .slice(at, at + PARALLEL)
        .map((entry) => vaultEvents(client, entry.signature, commitment))
      for (const events of await Promise.all(reads)) {
        if (!events) return
        yield events
      }
    }
    before = page.at(-1)?.signature
    if (page.length < PAGE || !before) return
  }
}
