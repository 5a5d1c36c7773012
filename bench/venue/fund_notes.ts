/** Makes notes of the bench known to the venue and free, through its own journal. */

import type { Place } from '../../engine/commands'
import type { Side } from '../../protocol/wire/trading'
import {
  ACCOUNTS,
  accountOf,
  elementNamed,
  KEYS,
  MINTS,
  named,
  pairNamed,
  REFERENCE_TICKS,
  SYMBOL,
  TICK,
} from './bench_config'
import type { BenchEngine } from './open_engine'

/** Enough for any order of the benches. */
const NOTE_AMOUNT = 10n ** 15n
const LEAVES_AT_A_TIME = 4_096
const ORDERS_AT_A_TIME = 1_000

/** With `two_sided`, odd accounts hold base notes and the others quote notes, so that no account trades with itself. */
export const sideOf = (index: number, two_sided: boolean): Side =>
  two_sided && ((index % KEYS) % ACCOUNTS) % 2 === 1 ? 'sell' : 'buy'

/**
 * Note `n` belongs to key `n % KEYS`. Each is finalized as a leaf, opened by a first order and freed by its cancel. The
 * openings are fabricated, because placing on a known note does not use Poseidon. With `through_tree` the leaves take
 * the watcher's path, hashing worker included, so that batches can land on top of them.
 */
export async function fundNotes(
  { engine, chain }: BenchEngine,
  count: number,
  options: { two_sided?: boolean; through_tree?: boolean } = {},
): Promise<void> {
  const { sequencer } = engine
  const { slot } = chain.view()
  const notes = Array.from({ length: count }, (_, at) => elementNamed(`note ${at}`))
  for (let from = 0; from < count; from += LEAVES_AT_A_TIME) {
    const leaves = notes.slice(from, from + LEAVES_AT_A_TIME)
    if (options.through_tree === true) await chain.sink.leaves(from, leaves, slot)
    else await sequencer.submit({ kind: 'leaves', first_index: from, leaves, slot })
  }
  chain.countLeaves(count)
  const keys = publicKeys(count)
  for (let from = 0; from < count; from += ORDERS_AT_A_TIME) {
    const orders = notes.slice(from, from + ORDERS_AT_A_TIME)
    await Promise.all(
      orders.flatMap((commitment, at) => {
        const index = from + at
        const place = firstOrder(index, keys[index % KEYS]!, commitment, slot, options.two_sided ?? false)
        const { account_id, order_id, trading_key, nonce: cancel_nonce, signature } = place
        return [
          sequencer.submit(place),
          sequencer.submit({ kind: 'cancel', account_id, order_id, trading_key, cancel_nonce, signature }),
        ]
      }),
    )
  }
}

/** Of the keys that `count` notes belong to. */
export function publicKeys(count: number): Uint8Array[] {
  return Array.from({ length: Math.min(KEYS, count) }, (_, at) => pairNamed(`key ${at}`).public_key)
}

/** A place command that opens note `index` and rests. */
export function firstOrder(
  index: number,
  trading_key: Uint8Array,
  commitment: Uint8Array,
  slot: number,
  two_sided: boolean,
): Place {
  const side = sideOf(index, two_sided)
  const { mint } = MINTS[side === 'sell' ? 0 : 1]!
  const blinding = elementNamed(`blinding ${index}`)
  const nullifier = elementNamed(`nullifier ${index}`)
  return {
    kind: 'place',
    account_id: accountOf(index % KEYS),
    origin: undefined,
    order_id: named(`first order ${index}`, 16),
    trading_key,
    symbol: SYMBOL,
    side,
    type: 'limit',
    amount: 1_000_000n,
    price_limit: BigInt(REFERENCE_TICKS) * TICK,
    min_fill: 0n,
    expiry_slot: slot + 1_000,
    nonce: BigInt(1 + Math.floor(index / KEYS)),
    collateral_commitment: commitment,
    anchors: [elementNamed(`anchor ${index}`)],
    signature: new Uint8Array(64),
    opening: { mint, amount: NOTE_AMOUNT, blinding, leaf_index: index, commitment, nullifier, leaf: index },
    digest: named(`digest ${index}`),
  }
}
