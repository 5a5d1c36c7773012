/** Makes notes of the bench known to the venue and free, and submits commands behind its intake, for the later stages. */
import type { Place } from '../../engine/commands'
import { accountIdOf } from '../../protocol/bodies/account'
import { publicKeyOf } from '../../protocol/sign'
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

const AT_A_TIME = 1_000

/** Places `count` resting orders, each on its own note, which it opens. */
export async function restOrders({ engine, chain }: BenchEngine, count: number): Promise<void> {
  const { sequencer } = engine
  const { slot } = chain.view()
  const keys = publicKeys(count)
  for (let from = 0; from < count; from += LEAVES_AT_A_TIME) {
    const length = Math.min(LEAVES_AT_A_TIME, count - from)
    const leaves = Array.from({ length }, (_, at) => elementNamed(`note ${from + at}`))
    await sequencer.submit({ kind: 'leaves', first_index: from, leaves, slot })
  }
  chain.countLeaves(count)
  for (let from = 0; from < count; from += AT_A_TIME) {
    const group = Array.from({ length: Math.min(AT_A_TIME, count - from) }, (_, at) => {
      const index = from + at
      const order = firstOrder(index, keys[index % KEYS]!, elementNamed(`note ${index}`), slot, false)
      return sequencer.submit({ ...order, expiry_slot: slot + 400_000 - (index % 1_000) })
    })
    await Promise.all(group)
  }
}

let round = 0

/** Places and cancels on the first notes of every account by turns: `per_wave` events of each account, one group. */
export async function waveOfEvents({ engine, chain }: BenchEngine, per_wave: number): Promise<void> {
  const { sequencer, state } = engine
  const { slot } = chain.view()
  const submitted: Promise<unknown>[] = []
  const keys = [...state.keys.values()]
  round += 1
  for (let index = 0; index < (ACCOUNTS * per_wave) / 2; index++) {
    const key = keys[index]!
    const place = firstOrder(index, key.bytes, elementNamed(`note ${index}`), slot, false)
    const order_id = named(`wave ${round} ${index}`, 16)
    const nonce = key.place_nonce + 1n
    const account_id = accountOf(index)
    const { trading_key, signature } = place
    submitted.push(
      sequencer.submit({ ...place, opening: undefined, order_id, nonce }),
      sequencer.submit({
        kind: 'cancel',
        account_id,
        order_id,
        trading_key,
        cancel_nonce: key.cancel_nonce + 1n,
        signature,
      }),
    )
  }
  await Promise.all(submitted)
}

/** Places and cancels by turns on one note, at `leaf`, of the account with this seed. */
export async function eventsOfOne(
  { engine, chain }: BenchEngine,
  seed: Uint8Array,
  leaf: number,
  events: number,
): Promise<void> {
  const { sequencer } = engine
  const { slot } = chain.view()
  const commitment = elementNamed('note of one')
  await sequencer.submit({ kind: 'leaves', first_index: leaf, leaves: [commitment], slot })
  chain.countLeaves(leaf + 1)
  const trading_key = pairNamed('key of one').public_key
  const first = firstOrder(leaf, trading_key, commitment, slot, false)
  const account_id = accountIdOf(publicKeyOf(seed))
  const { signature } = first
  for (let pair = 1; pair <= events / 2; pair++) {
    const order_id = named(`order of one ${pair}`, 16)
    const nonce = BigInt(pair)
    const opening = pair === 1 ? first.opening : undefined
    const placed = sequencer.submit({ ...first, account_id, order_id, nonce, opening })
    const cancel = { account_id, order_id, trading_key, cancel_nonce: nonce, signature }
    const cancelled = sequencer.submit({ kind: 'cancel', ...cancel })
    if (pair % AT_A_TIME === 0) await Promise.all([placed, cancelled])
  }
  await sequencer.durable()
  await engine.loaded.history.flush()
}
