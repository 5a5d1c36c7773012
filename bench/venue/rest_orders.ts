/** Submits commands behind the venue's intake, for benches of the stages after the signature. */
import { accountIdOf } from '../../protocol/bodies/account'
import { publicKeyOf } from '../../protocol/sign'
import { ACCOUNTS, accountOf, elementNamed, KEYS, named, pairNamed } from './bench_config'
import { firstOrder, publicKeys } from './fund_notes'
import type { BenchEngine } from './open_engine'

const AT_A_TIME = 1_000
const LEAVES_AT_A_TIME = 4_096

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
