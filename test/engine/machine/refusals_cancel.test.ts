/** Every refusal of cancel, modify, cancel-all and the dead-man timer, in the order of checks. */
import { expect, test } from 'bun:test'
import type { CommandOf } from '../../../engine/commands'
import type { RefusalCode } from '../../../protocol/refusals'
import { BASE, key, LOT, SIGNATURE, seeded, TICK, type World } from '../../kit/venue/machine_world'
import { cancelling, idOf, prepared, refused } from './prepared'

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

const LATE = { cancel_nonce: 5n, nonce: 11n, expiry_slot: 1, collateral_commitment: seeded('none') }
const MODIFIES: [RefusalCode, Change][] = [
  ['key_bound', { ...LATE, trading_key: key('b'), old: 'none' }],
  ['account_suspended', { ...LATE, account_id: 'carol', trading_key: key('c'), old: 'none' }],
  ['order_id_taken', { ...LATE, order_id: idOf('live'), old: 'none' }],
  ['order_id_taken', { ...LATE, order_id: idOf('bobs'), old: 'none' }],
  ['order_unknown', { ...LATE, old: 'none' }],
  ['not_owner', { ...LATE, old: 'bobs' }],
  ['order_final', { ...LATE, old: 'final' }],
  ['nonce_stale', { ...LATE }],
  ['nonce_stale', { ...LATE, cancel_nonce: 6n }],
  ['expiry_too_soon', { ...LATE, cancel_nonce: 6n, nonce: 12n }],
  ['note_unknown', { ...LATE, cancel_nonce: 6n, nonce: 12n, expiry_slot: 1_500 }],
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
  expect(world.state.mints[0]!.bytes).toEqual(BASE)
})
