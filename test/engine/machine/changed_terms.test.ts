/** An operator changes the terms of an instrument while orders rest (docs/operations.md "18. Instruments"). */
import { expect, test } from 'bun:test'
import { decodeState } from '../../../engine/machine/codec/decode_state'
import { encodeState } from '../../../engine/machine/codec/encode_state'
import type { Fill } from '../../../protocol/wire/trading'
import { FIXED_HASH_SEED, key, LOT, QUOTE, settings, TICK, World } from '../../kit/venue/machine_world'

/** The settings with another fee in every instrument. */
const feeOf = (fee_bps: number) => {
  const { instruments, ...rest } = settings()
  return { ...rest, instruments: instruments.map((one) => ({ ...one, fee_bps })) }
}
const fillsOf = (world: World, account: string) =>
  world.events
    .filter((one) => one.account_id === account && one.event.kind === 'fill.matched')
    .map((one) => one.event.data as Fill)

/** A buyer whose note pays the limit and the fee of 10 bps to the unit. */
function venue(): { world: World; order: string } {
  const world = new World()
  for (const name of ['alice', 'bob']) world.account(name)
  const opening = world.deposit(key('a'), QUOTE, 100_100n)
  const order = world.place('alice', key('a'), {
    side: 'buy',
    amount: 1_000n * LOT,
    price_limit: 100n * TICK,
    opening,
    collateral_commitment: opening.commitment,
  })
  return { world, order }
}
const sell = (world: World, lots: bigint) =>
  world.place('bob', key('b'), { side: 'sell', amount: lots * LOT, price_limit: 100n * TICK })

test.each([1_000, 11, 9, 0])('an order pays the fee in force when it was accepted, not %d bps', (fee_bps) => {
  const { world } = venue()
  sell(world, 400n)
  world.close()
  world.must({ kind: 'configure', settings: feeOf(fee_bps) })
  world.state = decodeState(encodeState(world.state), FIXED_HASH_SEED)
  sell(world, 600n)
  world.close()
  world.hashAll()
  expect(fillsOf(world, 'alice').map(({ fee }) => fee)).toEqual(['40', '60'])
  const late = (600n * 100n * BigInt(fee_bps) + 9_999n) / 10_000n
  expect(fillsOf(world, 'bob').map(({ fee }) => fee)).toEqual(['40', late.toString()])
})
