/** Every refusal of place, cancel, modify, cancel-all and the dead-man timer, in the order of checks. */

import { expect, test } from 'bun:test'
import type { CommandOf } from '../../../engine/commands'
import { LIMITS } from '../../../engine/limits'
import type { RefusalCode } from '../../../protocol/refusals'
import {
  BASE,
  cancelling,
  idOf,
  key,
  LOT,
  prepared,
  QUOTE,
  refused,
  SIGNATURE,
  SYMBOL,
  seeded,
  TICK,
  type World,
} from '../../kit/venue/machine_world'

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

test("503 comes last: paused instrument, then the halted venue, then the environment's reasons", () => {
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

const CANCELS: [RefusalCode, string, string, string, bigint][] = [
  ['key_bound', 'alice', 'b', 'none', 1n],
  ['order_unknown', 'alice', 'a', 'none', 1n],
  ['order_unknown', 'alice', 'new', 'none', 1n],
  ['not_owner', 'alice', 'a', 'bobs', 1n],
  ['not_owner', 'alice', 'new', 'live', 1n],
  ['not_owner', 'bob', 'b', 'final', 1n],
  ['order_final', 'alice', 'a', 'final', 1n],
  ['nonce_stale', 'alice', 'a', 'live', 5n],
]
for (const [code, account_id, owner, name, nonce] of CANCELS) {
  test(`a cancel of ${account_id} with key ${owner} for order ${name} answers ${code}`, () => {
    const { world } = prepared()
    expect(refused(world, cancelling(account_id, key(owner), name, nonce)).code).toBe(code)
  })
}

test('a cancel of a final order says how it ended, and a cancel is possible for the suspended and when halted', () => {
  const { world } = prepared()
  expect(refused(world, cancelling('alice', key('a'), 'final', 6n)).facts).toEqual({
    status_now: 'cancelled',
  })
  world.must({ kind: 'halted', reason: 'vault_paused' })
  world.account('alice', { version: 2, state: 'suspended' })
  world.must(cancelling('alice', key('a'), 'live', 6n))
  expect(refused(world, cancelling('alice', key('a'), 'live', 7n)).code).toBe('order_final')
})

type Change = { account_id?: string; old?: string; cancel_nonce?: bigint } & Partial<CommandOf<'place'>>
function modifying(world: World, change: Change): CommandOf<'modify'> {
  const { account_id = 'alice', old = 'live', cancel_nonce = 6n, ...body } = change
  const replacement = world.placing(account_id, body.trading_key ?? key('a'), { nonce: 12n, ...body })
  const { trading_key } = replacement
  return {
    kind: 'modify',
    unix_ms: 0,
    account_id,
    origin: undefined,
    cancel: { order_id: idOf(old), trading_key, cancel_nonce, signature: SIGNATURE },
    replacement,
  }
}

test('an account with all the orders that it may have changes one of them', () => {
  const { world } = prepared()
  world.account('alice', { version: 2, orders_live_max: 1 })
  expect(refused(world, world.placing('alice', key('a'), { nonce: 12n })).code).toBe('account_order_limit')
  world.must(modifying(world, {}))
  expect(world.state.accounts.get('alice')!.live).toBe(1)
})

const TOO_LATE = { cancel_nonce: 5n, nonce: 11n, expiry_slot: 1, collateral_commitment: seeded('none') }
const MODIFIES: [RefusalCode, Change][] = [
  ['key_bound', { ...TOO_LATE, trading_key: key('b'), old: 'none' }],
  ['account_suspended', { ...TOO_LATE, account_id: 'carol', trading_key: key('c'), old: 'none' }],
  ['order_id_taken', { ...TOO_LATE, order_id: idOf('live'), old: 'none' }],
  ['order_id_taken', { ...TOO_LATE, order_id: idOf('bobs'), old: 'none' }],
  ['order_unknown', { ...TOO_LATE, old: 'none' }],
  ['not_owner', { ...TOO_LATE, old: 'bobs' }],
  ['order_final', { ...TOO_LATE, old: 'final' }],
  ['nonce_stale', { ...TOO_LATE }],
  ['nonce_stale', { ...TOO_LATE, cancel_nonce: 6n }],
  ['expiry_too_soon', { ...TOO_LATE, cancel_nonce: 6n, nonce: 12n }],
  ['note_unknown', { ...TOO_LATE, cancel_nonce: 6n, nonce: 12n, expiry_slot: 1_500 }],
]
for (const [code, change] of MODIFIES) {
  test(`a modify that fails ${code} and later checks answers ${code} and leaves the old order`, () => {
    const { world } = prepared()
    expect(refused(world, modifying(world, change)).code).toBe(code)
    expect(world.state.orders.find(idOf('live'))).toBeDefined()
  })
}

test('a modify may use the note of the order it replaces and cross it, and a resend learns both ids', () => {
  const { world, live } = prepared()
  const modify = modifying(world, { collateral_commitment: live.collateral_commitment })
  const { answer, events } = world.must(modify)
  expect(answer).toMatchObject({ result: { old_order_id: idOf('live').toHex(), status: 'accepted' } })
  expect(events.map((one) => one.event.kind)).toEqual(['order.replaced', 'order.accepted'])
  expect(refused(world, modify)).toMatchObject({
    code: 'order_exists',
    facts: { result: answer.kind === 'modify' ? answer.result : undefined },
  })
  const crossing = modifying(world, {
    side: 'sell',
    price_limit: 90n * TICK,
    amount: LOT,
    nonce: 13n,
    cancel_nonce: 7n,
  })
  crossing.cancel.order_id = modify.replacement.order_id
  world.must(crossing)
})

test('a modify that names a note consumed meanwhile changes nothing', () => {
  const { world, live } = prepared()
  world.place('bob', key('b2'), { side: 'sell', amount: LOT, price_limit: 100n * TICK })
  world.close()
  const modify = modifying(world, { collateral_commitment: live.collateral_commitment })
  expect(refused(world, modify).code).toBe('note_spent')
})

test('only a pure reduction keeps the age of an order', () => {
  const reduce = (change: Change) => {
    const { world, live } = prepared()
    world.place('bob', key('b2'), { side: 'sell', amount: LOT, price_limit: 200n * TICK })
    world.close()
    const modify = modifying(world, {
      collateral_commitment: live.collateral_commitment,
      expiry_slot: live.expiry_slot,
      amount: 5n * LOT,
      ...change,
    })
    world.must(modify)
    return world.state.orders.find(modify.replacement.order_id)!.arrival_batch
  }
  expect(reduce({})).toBe(1)
  expect(reduce({ amount: 10n * LOT })).toBe(2)
  expect(reduce({ price_limit: 99n * TICK })).toBe(2)
  expect(reduce({ expiry_slot: 1_499 })).toBe(2)
  expect(reduce({ min_fill: LOT })).toBe(2)
})

function cancellingAll(items: [string, string | undefined, bigint][]): CommandOf<'cancel_all'> {
  return {
    kind: 'cancel_all',
    unix_ms: 0,
    account_id: 'alice',
    items: items.map(([owner, symbol, cancel_nonce]) => ({
      trading_key: key(owner),
      symbol,
      cancel_nonce,
      signature: SIGNATURE,
    })),
  }
}

test('cancel-all takes effect for all its items or for none', () => {
  const { world } = prepared()
  expect(
    refused(
      world,
      cancellingAll([
        ['a', undefined, 5n],
        ['b', undefined, 1n],
      ]),
    ).code,
  ).toBe('key_bound')
  expect(
    refused(
      world,
      cancellingAll([
        ['a', undefined, 6n],
        ['a', undefined, 6n],
      ]),
    ).facts,
  ).toEqual({
    nonce_last: '6',
  })
  world.account('alice', { version: 2, keys_max: 2 })
  expect(
    refused(
      world,
      cancellingAll([
        ['x', undefined, 1n],
        ['y', undefined, 1n],
      ]),
    ).code,
  ).toBe('account_key_limit')
  const other = world.must(cancellingAll([['a', 'OTH-USDC', 6n]]))
  expect(other.answer).toMatchObject({ result: { cancelled: [] } })
  const all = world.must(
    cancellingAll([
      ['a', 'SOL-USDC', 7n],
      ['x', undefined, 1n],
    ]),
  )
  expect(all.answer).toMatchObject({ result: { cancelled: [idOf('live').toHex()] } })
  expect(all.events[0]!.event.data).toMatchObject({ reason: 'cancel_all' })
})

function timing(owner: string, cancel_nonce: bigint, timeout_slots: number): CommandOf<'dead_man'> {
  return {
    kind: 'dead_man',
    unix_ms: 0,
    account_id: 'alice',
    trading_key: key(owner),
    cancel_nonce,
    timeout_slots,
    signature: SIGNATURE,
  }
}

test('a dead-man timer refuses foreign keys and old nonces, fires once its slots passed, and can be renewed', () => {
  const { world } = prepared()
  expect(refused(world, timing('b', 1n, 50)).code).toBe('key_bound')
  expect(refused(world, timing('a', 5n, 50)).code).toBe('nonce_stale')
  expect(world.must(timing('a', 6n, 50)).answer).toMatchObject({ result: { expires_slot: 1_050 } })
  world.must({ kind: 'slot', reopens_slot: 0, slot: 1_049 })
  expect(world.must(timing('a', 7n, 50)).answer).toMatchObject({ result: { expires_slot: 1_099 } })
  world.must({ kind: 'slot', reopens_slot: 0, slot: 1_098 })
  expect(world.state.orders.size).toBe(2)
  const fired = world.must({ kind: 'slot', reopens_slot: 0, slot: 1_099 })
  expect(fired.events[0]!.event).toMatchObject({ kind: 'order.cancelled', data: { reason: 'deadman' } })
  expect(world.must(timing('a', 8n, 0)).answer).toMatchObject({ result: { expires_slot: null } })
})

test('an armed socket takes its own orders with it, once', () => {
  const { world } = prepared()
  const own = { side: 'sell' as const, price_limit: 200n * TICK, amount: LOT }
  const mine = world.place('alice', key('a'), { ...own, origin: 's1', nonce: 20n })
  world.place('alice', key('a'), { ...own, origin: 's2', nonce: 21n })
  expect(world.must({ kind: 'disconnected', account_id: 'alice', origin: 's1' }).events).toEqual([])
  world.must({ kind: 'arm_disconnect', account_id: 'alice', origin: 's1', armed: true })
  const gone = world.must({ kind: 'disconnected', account_id: 'alice', origin: 's1' })
  expect(gone.events.map((one) => one.event.data)).toMatchObject([{ order_id: mine, reason: 'disconnect' }])
  world.place('alice', key('a'), { ...own, origin: 's1', nonce: 22n })
  expect(world.must({ kind: 'disconnected', account_id: 'alice', origin: 's1' }).events).toEqual([])
  expect(world.state.mints[0]!.bytes).toEqual(BASE)
})
