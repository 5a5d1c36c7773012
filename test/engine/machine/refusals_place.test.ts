/** Every refusal of a place, in the order of checks: each case fails a check and every later one it can. */
import { expect, test } from 'bun:test'
import type { CommandOf } from '../../../engine/commands'
import { LIMITS } from '../../../engine/limits'
import type { RefusalCode } from '../../../protocol/refusals'
import { BASE, key, LOT, QUOTE, SYMBOL, seeded, TICK, type World } from '../../kit/venue/machine_world'
import { prepared, refused } from './prepared'

/** A spy's order closes, then as many of others, then a snapshot covers all: may the spy use the id again? */
function reused(closed_by_others: number, later_ms: number): string {
  const { world, final } = prepared()
  const { finals } = world.state
  const facts = { status: 'cancelled', reason: 'by_owner', arrival_slot: 1, expiry_slot: 2, seq: 1 } as const
  const identity = new Uint8Array(64)
  for (let count = 1; count <= closed_by_others; count++) {
    identity.set(seeded(`other ${count}`))
    finals.add(identity, { ...facts, final_unix_ms: world.unix_ms, key: 0, replaces: false })
  }
  world.unix_ms += later_ms
  const covered = { leaves: 0, nullifiers: 0, retired: 0, finals: finals.rows.size }
  const hash = seeded('hash')
  world.must({ kind: 'snapshot_taken', seq: 1, state_hash: hash, catalogue_hash: hash, covered })
  const outcome = world.run(world.placing('alice', key('a'), { order_id: final.order_id, nonce: 900n }))
  return outcome.ok ? 'accepted' : outcome.code
}

test('whether the id of an own closed order is free again does not depend on how many others have closed', () => {
  for (const [later_ms, answer] of [
    [1_000, 'order_id_taken'],
    [11_000, 'accepted'],
  ] as const)
    expect([0, 100_001].map((others) => reused(others, later_ms))).toEqual([answer, answer])
})

type PlaceCase = { code: RefusalCode; change: (c: ReturnType<typeof context>) => Partial<CommandOf<'place'>> }
function context() {
  const { world, live, final } = prepared()
  const note = world.deposit(key('a'), BASE, 1_000n * LOT)
  const quote_note = world.deposit(key('a'), QUOTE, 1_000n)
  return { world, live, final, note, quote_note }
}
function used(note: ReturnType<World['deposit']>) {
  return { collateral_commitment: note.commitment, opening: note }
}

/** Each case keeps the faults of all later cases, so the first check that fails must be the one that answers. */
const LATE = { side: 'sell', amount: LOT, price_limit: 100n * TICK, nonce: 10n, expiry_slot: 1 } as const
const PLACE: PlaceCase[] = [
  { code: 'key_bound', change: ({ live }) => ({ ...LATE, trading_key: key('b'), order_id: live.order_id }) },
  {
    code: 'account_suspended',
    change: ({ live }) => ({ ...LATE, account_id: 'carol', trading_key: key('c'), order_id: live.order_id }),
  },
  { code: 'order_exists', change: ({ live }) => ({ ...live, expiry_slot: 1, price_limit: TICK }) },
  { code: 'order_exists', change: ({ final }) => ({ ...final, expiry_slot: 1 }) },
  { code: 'order_id_taken', change: ({ live }) => ({ ...LATE, order_id: live.order_id }) },
  { code: 'order_id_taken', change: ({ final }) => ({ ...LATE, order_id: final.order_id }) },
  { code: 'nonce_stale', change: () => ({ ...LATE, nonce: 11n }) },
  { code: 'expiry_too_soon', change: () => ({ ...LATE, nonce: 12n }) },
  {
    code: 'expiry_too_soon',
    change: ({ world }) => ({ ...LATE, nonce: 12n, expiry_slot: world.state.slot + 4 }),
  },
  {
    code: 'expiry_too_far',
    change: ({ world }) => ({ ...LATE, nonce: 12n, expiry_slot: world.state.slot + 1_001 }),
  },
  { code: 'note_unknown', change: () => ({ ...LATE, ...later, collateral_commitment: seeded('none') }) },
  {
    code: 'note_unknown',
    change: ({ note, quote_note }) => ({ ...LATE, ...later, ...used(note), opening: quote_note }),
  },
  {
    code: 'note_unknown',
    change: ({ note }) => ({
      ...LATE,
      ...later,
      ...used(note),
      opening: { ...note, leaf_index: note.leaf_index! + 1 },
    }),
  },
  {
    code: 'note_unknown',
    change: ({ note }) => ({ ...LATE, ...later, ...used(note), opening: { ...note, leaf_index: 1_000_000 } }),
  },
  {
    code: 'note_unknown',
    change: ({ world }) => ({ ...LATE, ...later, collateral_commitment: bobs(world) }),
  },
  { code: 'note_wrong_mint', change: ({ quote_note }) => ({ ...LATE, ...later, ...used(quote_note) }) },
  {
    code: 'note_wrong_mint',
    change: ({ live }) => ({ ...LATE, ...later, collateral_commitment: live.collateral_commitment }),
  },
  {
    code: 'note_in_use',
    change: ({ live }) => ({
      ...LATE,
      ...later,
      side: 'buy',
      amount: 1_000n * LOT,
      collateral_commitment: live.collateral_commitment,
    }),
  },
  {
    code: 'collateral_insufficient',
    change: ({ note }) => ({ ...LATE, ...later, ...used(note), amount: 1_001n * LOT }),
  },
  { code: 'self_cross', change: ({ note }) => ({ ...LATE, ...later, ...used(note) }) },
]
const later = { nonce: 12n, expiry_slot: 1_500 }
function bobs(world: World): Uint8Array {
  const order = [...world.state.orders.values()].find((one) => one.key.account.account_id === 'bob')!
  return order.collateral.commitment!
}

for (const { code, change } of PLACE) {
  test(`a place that fails ${code} and later checks answers ${code} and changes nothing`, () => {
    const given = context()
    const outcome = refused(
      given.world,
      given.world.placing('alice', key('a'), { collateral_commitment: seeded('none'), ...change(given) }),
      {
        unavailable: 'draining',
      },
    )
    expect(outcome.code).toBe(code)
  })
}

test('an identical resend carries the original result, also when the order is final', () => {
  const { world, live, final } = prepared()
  for (const [command, seq] of [
    [live, 2],
    [final, 3],
  ] as const) {
    const order_id = command.order_id.toHex()
    expect(refused(world, command).facts).toEqual({
      result: { order_id, status: 'accepted', arrival_slot: 1_000, seq },
    })
  }
})

test('a stale nonce says which one was last', () => {
  const { world } = prepared()
  const outcome = refused(world, world.placing('alice', key('a'), { nonce: 10n }))
  expect(outcome.facts).toEqual({ nonce_last: '11' })
})

test('self-cross is per account: another key of the account counts, a level that only touches counts', () => {
  const { world } = prepared()
  const sell = { side: 'sell' as const, price_limit: 100n * TICK, nonce: 1n }
  expect(refused(world, world.placing('alice', key('a2'), sell)).code).toBe('self_cross')
  world.must(world.placing('alice', key('a2'), { ...sell, price_limit: 101n * TICK }))
  world.must(world.placing('bob', key('b2'), sell))
})

test('503 comes last: paused instrument, then the halted venue, then what the surroundings say', () => {
  const { world } = prepared()
  const placing = () => world.placing('alice', key('a2'), { price_limit: 50n * TICK, nonce: 1n })
  const status = (to: 'active' | 'paused') =>
    world.must({ kind: 'instrument_status', symbol: SYMBOL, status: to })
  const env = { unavailable: 'draining' } as const
  world.must({ kind: 'halted', reason: 'vault_paused' })
  status('paused')
  expect(refused(world, placing(), env).code).toBe('instrument_paused')
  status('active')
  expect(refused(world, placing(), env)).toMatchObject({ code: 'matching_unavailable' })
  world.must({ kind: 'resumed' })
  expect(refused(world, placing(), env).code).toBe('draining')
  world.must(placing())
})

test('bounds answer in the order orders, keys, settlement', () => {
  const { world } = prepared()
  const placing = () => world.placing('alice', key('a2'), { price_limit: 50n * TICK, nonce: 1n })
  world.account('alice', { version: 2, orders_live_max: 1, keys_max: 1 })
  world.state.settlement.unlanded = LIMITS.unlanded_place_max + 1
  expect(refused(world, placing()).code).toBe('account_order_limit')
  world.account('alice', { version: 3, orders_live_max: 2, keys_max: 1 })
  expect(refused(world, placing()).code).toBe('account_key_limit')
  world.account('alice', { version: 4, keys_max: 2 })
  const { key_list } = world.state
  const bound = key_list.length
  key_list.length = LIMITS.trading_keys_max
  // However many keys other accounts have.
  expect(refused(world, placing()).code).toBe('settlement_backlog')
  key_list.length = bound
  expect(refused(world, placing()).code).toBe('settlement_backlog')
  world.state.settlement.unlanded = LIMITS.unlanded_place_max
  world.must(placing())
})
