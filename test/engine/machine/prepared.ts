/** A venue with two active accounts, a suspended one, live and final orders: where refusals are tried. */
import { expect } from 'bun:test'
import type { CommandBody, CommandOf } from '../../../engine/commands'
import { stateHash } from '../../../engine/machine/codec/encode_state'
import type { Env } from '../../../engine/machine/state/outcome'
import { key, SIGNATURE, seeded, TICK, World } from '../../kit/venue/machine_world'

/** 16 bytes in place of a client's id. */
export const idOf = (name: string) => seeded(name).slice(0, 16)

/**
 * alice with key a: one live buy at 100, one cancelled, place nonce 11, cancel nonce 5; bob with key b: one live buy,
 * place nonce 10; carol is suspended.
 */
export function prepared() {
  const world = new World()
  for (const name of ['alice', 'bob']) world.account(name)
  world.account('carol', { state: 'suspended' })
  const live = world.placing('alice', key('a'), { order_id: idOf('live'), nonce: 10n })
  world.must(live)
  const final = world.placing('alice', key('a'), {
    order_id: idOf('final'),
    price_limit: 90n * TICK,
    nonce: 11n,
  })
  world.must(final)
  world.must(cancelling('alice', key('a'), 'final', 5n))
  world.must(world.placing('bob', key('b'), { order_id: idOf('bobs'), nonce: 10n, price_limit: 80n * TICK }))
  return { world, live, final }
}

export function cancelling(
  account_id: string,
  trading_key: Uint8Array,
  name: string,
  cancel_nonce: bigint,
): CommandOf<'cancel'> {
  const order_id = idOf(name)
  return { kind: 'cancel', unix_ms: 0, account_id, order_id, trading_key, cancel_nonce, signature: SIGNATURE }
}

/** Runs a command that must be rejected and must leave no trace. */
export function refused(world: World, command: CommandBody, env: Env = {}) {
  const before = stateHash(world.state)
  const outcome = world.run(command, env)
  if (outcome.ok) throw new Error('accepted')
  expect(stateHash(world.state)).toEqual(before)
  return outcome
}
