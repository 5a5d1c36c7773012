/** Payouts wait in the vault's queue: numbers as the program counts them, room, stages in any order, forks. */
import { expect, test } from 'bun:test'
import type { NoteFact } from '../../../engine/commands'
import { decodeState } from '../../../engine/machine/codec/decode_state'
import { encodeState } from '../../../engine/machine/codec/encode_state'
import { openPayouts, payloadOf } from '../../../engine/machine/settlement/payload'
import { spentBatch } from '../../../engine/machine/state/past'
import { encodeBase58 } from '../../../protocol/base58'
import type * as wire from '../../../protocol/wire/trading'
import {
  BASE,
  DESTINATION,
  FIXED_HASH_SEED,
  key,
  SIGNATURE,
  seeded,
  World,
} from '../../kit/venue/machine_world'
import { idOf } from './prepared'

const FACTS = { account_id: 'alice', trading_key: key('a'), signature: SIGNATURE } as const

function withdraw(world: World, name: string, nonce: bigint): NoteFact {
  const note = world.deposit(key('a'), BASE, 1_000n)
  world.must({
    ...FACTS,
    kind: 'withdraw',
    withdrawal_id: idOf(name),
    commitment: note.commitment,
    opening: note,
    destination: DESTINATION,
    amount: 900n,
    nonce,
    expiry_slot: 1_500,
    change_anchor: seeded(name),
  })
  return note
}

function exit(world: World, name: string): void {
  const terms = { mint: BASE, amount: 5n, destination: DESTINATION, deadline_unix_s: 2_000_000_000 }
  const names = { commitment: seeded(`${name} c`), nullifier: seeded(`${name} n`) }
  const account = { request_account: seeded('request'), refund_inner: seeded('inner') }
  world.must({ kind: 'exit_requested', request: { ...terms, ...names, ...account, stage: 'finalized' } })
}

function venue(): World {
  const world = new World()
  world.account('alice')
  return world
}

const pack = (world: World) => {
  world.must({ kind: 'slot', reopens_slot: 0, slot: world.state.slot + 1 })
  world.hashAll()
}
const land = (world: World, batch_id: number) => {
  for (const stage of ['submitted', 'confirmed', 'finalized'] as const) world.stage(batch_id, stage)
}
const newest = ({ events }: World) => {
  const { kind, data } = events.findLast((one) => one.event.kind.startsWith('withdrawal.'))!.event
  return { kind, ...(data as wire.Withdrawal) }
}

test('payouts count from 1 in payload order across batches, a reshape and an order count none', () => {
  const world = venue()
  withdraw(world, 'first', 1n)
  exit(world, 'second')
  pack(world)
  land(world, 1)
  withdraw(world, 'third', 2n)
  pack(world)
  land(world, 2)
  const batches = [...world.events.values()].filter(({ event }) => event.kind === 'withdrawal.confirmed')
  const numbers = batches.map(({ event }) => (event.data as wire.Withdrawal).payout_number)
  expect(numbers).toEqual([1, 3])
  const terms = { mint: BASE, destination: DESTINATION, signature: undefined }
  expect(openPayouts(world.state)).toEqual([
    { number: 1, ...terms, amount: 900n, batch_id: 1 },
    { number: 2, ...terms, amount: 5n, batch_id: 1 },
    { number: 3, ...terms, amount: 900n, batch_id: 2 },
  ])
  world.payout(3, 'confirmed')
  expect(openPayouts(world.state).at(-1)).toMatchObject({
    number: 3,
    signature: encodeBase58(new Uint8Array(64).fill(103)),
  })
})

test('a payout is open from the confirmation of its batch to its own finality, and not in a dropped batch', () => {
  const world = venue()
  withdraw(world, 'one', 1n)
  pack(world)
  expect(payloadOf(world.state, 1)!.payouts).toMatchObject([{ number: 1, kind: 'withdrawal' }])
  const open = () => openPayouts(world.state).length
  world.stage(1, 'submitted')
  expect(open()).toBe(0)
  world.stage(1, 'confirmed')
  expect(open()).toBe(1)
  world.payout(1, 'confirmed')
  expect(open()).toBe(1)
  expect(newest(world)).toMatchObject({ kind: 'withdrawal.confirmed', payout_stage: 'confirmed' })
  world.stage(1, 'submitted')
  expect(open()).toBe(0)
  expect(newest(world).payout_stage).toBeUndefined()
  land(world, 1)
  world.payout(1, 'confirmed', { outcome: 'refunded', refund_commitment: seeded('r'), refund_leaf_index: 9 })
  expect(newest(world)).toMatchObject({ status: 'finalized', refund_commitment: seeded('r').toHex() })
  world.payout(1, 'submitted')
  expect(newest(world).refund_commitment).toBeUndefined()
  world.payout(1, 'finalized')
  expect(newest(world)).toMatchObject({ kind: 'withdrawal.paid', status: 'paid', payout_stage: 'finalized' })
  expect(open()).toBe(0)
  expect(world.state.settlement.payouts_open).toBe(0)
})

test('open payouts ascend by number, also after a fork let an earlier batch in last', () => {
  const world = venue()
  for (const batch_id of [1, 2]) {
    withdraw(world, `number ${batch_id}`, BigInt(batch_id))
    while (world.state.settlement.last_batch < batch_id) pack(world)
    world.stage(batch_id, 'confirmed')
  }
  world.stage(1, 'submitted')
  world.stage(1, 'confirmed')
  expect([...world.state.settlement.queued.keys()]).toEqual([2, 1])
  expect(openPayouts(world.state).map(({ number }) => number)).toEqual([1, 2])
})

test('a payout may be final before its batch is reported final; a repeated report changes nothing', () => {
  const world = venue()
  withdraw(world, 'one', 1n)
  pack(world)
  world.stage(1, 'submitted')
  world.stage(1, 'confirmed')
  world.payout(1, 'finalized')
  const { length } = world.events
  world.payout(1, 'finalized')
  world.stage(1, 'finalized')
  expect(world.events.length).toBe(length)
  expect(newest(world)).toMatchObject({ kind: 'withdrawal.paid', status: 'paid' })
  expect(openPayouts(world.state)).toEqual([])
  expect(() => world.payout(2, 'confirmed')).toThrow('never packed')
})

test('an exit ends with its payout, not with its batch', () => {
  const world = venue()
  exit(world, 'one')
  pack(world)
  land(world, 1)
  expect(world.state.settlement.exits.size).toBe(1)
  world.state = decodeState(encodeState(world.state), FIXED_HASH_SEED)
  world.payout(1, 'confirmed')
  world.payout(1, 'finalized')
  expect(world.state.settlement.exits.size).toBe(0)
  expect(world.state.settlement.payouts_open).toBe(0)
})

test('the owner of a known note follows its exit: requested, served, back with a fork, paid or refunded', () => {
  for (const outcome of ['paid', 'refunded'] as const) {
    const world = venue()
    const note = withdraw(world, 'uses the note', 1n)
    const request = {
      mint: BASE,
      amount: note.amount,
      destination: DESTINATION,
      deadline_unix_s: 2_000_000_000,
      commitment: note.commitment,
      nullifier: note.nullifier,
      request_account: seeded('request'),
      refund_inner: seeded('inner'),
      stage: 'finalized' as const,
    }
    const from = world.events.length
    world.must({ kind: 'exit_requested', request })
    pack(world)
    for (const stage of ['submitted', 'confirmed', 'submitted'] as const) world.stage(1, stage)
    land(world, 1)
    const refund = { outcome, refund_commitment: seeded('refund'), refund_leaf_index: 5 }
    const change = outcome === 'refunded' ? refund : {}
    world.payout(1, 'confirmed', change)
    world.payout(1, 'finalized', change)
    const events = world.events.slice(from).map(({ event }) => event)
    expect(events.map(({ kind }) => kind)).toEqual([
      'withdrawal.voided',
      'note.exited',
      'exit.requested',
      'exit.served',
      'exit.requested',
      'exit.served',
      'exit.served',
      `exit.${outcome}`,
    ])
    const last = events.at(-1)!.data as wire.ExitEvent
    expect(last).toMatchObject({
      status: outcome,
      settlement_batch: 1,
      payout_number: 1,
      payout_stage: 'finalized',
    })
    expect(last.refund_commitment).toBe(outcome === 'refunded' ? seeded('refund').toHex() : undefined)
  }
})

test('no payout is packed while the queue has no room; a reshape behind it is', () => {
  const world = venue()
  world.must({ kind: 'queue_capacity', capacity: 1 })
  withdraw(world, 'first', 1n)
  withdraw(world, 'second', 2n)
  const note = world.deposit(key('a'), BASE, 50n)
  world.must({
    ...FACTS,
    kind: 'reshape',
    reshape_id: idOf('reshape'),
    inputs: [note.commitment],
    amounts: [20n, 30n],
    anchor: seeded('reshape'),
    nonce: 3n,
    expiry_slot: 1_500,
    openings: [note],
  })
  pack(world)
  expect(payloadOf(world.state, 1)).toMatchObject({ payouts: [{ number: 1 }], outputs: { length: 3 } })
  land(world, 1)
  pack(world)
  expect(world.state.settlement.last_batch).toBe(1)
  world.payout(1, 'finalized')
  pack(world)
  expect(payloadOf(world.state, 2)!.payouts).toMatchObject([{ number: 2 }])
})

test('a restored queue keeps its numbers and places; the state comes back from a snapshot with them', () => {
  const world = venue()
  const terms = { mint: BASE, destination: DESTINATION, amount: 7n }
  world.must({ kind: 'queue_restored', next_payout: 9, payouts: [{ number: 4, ...terms }] })
  world.must({ kind: 'queue_capacity', capacity: 2 })
  withdraw(world, 'first', 1n)
  withdraw(world, 'second', 2n)
  pack(world)
  land(world, 1)
  world.state = decodeState(encodeState(world.state), FIXED_HASH_SEED)
  expect(openPayouts(world.state)).toEqual([
    { number: 4, ...terms, batch_id: 0, signature: undefined },
    { number: 9, ...terms, amount: 900n, batch_id: 1, signature: undefined },
  ])
  pack(world)
  expect(world.state.settlement.last_batch).toBe(1)
  world.payout(4, 'finalized')
  pack(world)
  expect(payloadOf(world.state, 2)!.payouts).toMatchObject([{ number: 10 }])
})

test('the spent batch of a nullifier is found, with all of its nullifiers', () => {
  const world = venue()
  const notes = [1n, 2n, 3n].map((nonce) => {
    const note = withdraw(world, `note ${nonce}`, nonce)
    pack(world)
    land(world, world.state.settlement.last_batch)
    return note
  })
  notes.forEach((note, at) => {
    expect(spentBatch(world.state, undefined, note.nullifier)).toEqual({
      batch_id: at + 1,
      nullifiers: [note.nullifier],
    })
  })
  expect(spentBatch(world.state, undefined, seeded('unspent'))).toBeUndefined()
})
