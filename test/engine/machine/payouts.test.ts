/** Withdrawals and reshapes: every refusal, in the order of checks; how they settle, and wait in the vault's queue. */

import { expect, test } from 'bun:test'
import type { CommandOf, NoteFact } from '../../../engine/commands'
import { decodeState, encodeState } from '../../../engine/machine/codec/state_codec'
import { openPayouts, payloadOf } from '../../../engine/machine/settlement/payload'
import { spentBatch } from '../../../engine/machine/state/past'
import { encodeBase58 } from '../../../protocol/base58'
import type { RefusalCode } from '../../../protocol/refusals'
import type * as wire from '../../../protocol/wire/trading'
import {
  BASE,
  DESTINATION,
  FIXED_HASH_SEED,
  idOf,
  key,
  prepared,
  QUOTE,
  refused,
  SIGNATURE,
  seeded,
  World,
} from '../../kit/venue/machine_world'

type WithdrawChange = Partial<CommandOf<'withdraw'>>
function withdrawing(change: WithdrawChange): CommandOf<'withdraw'> {
  return {
    kind: 'withdraw',
    unix_ms: 0,
    account_id: 'alice',
    withdrawal_id: idOf('withdrawal'),
    trading_key: key('a'),
    commitment: seeded('none'),
    destination: DESTINATION,
    amount: 100n,
    nonce: 12n,
    expiry_slot: 1_500,
    change_anchor: seeded('change anchor'),
    signature: SIGNATURE,
    opening: undefined,
    ...change,
  }
}
type ReshapeChange = Partial<CommandOf<'reshape'>>
function reshaping(change: ReshapeChange): CommandOf<'reshape'> {
  return {
    kind: 'reshape',
    unix_ms: 0,
    account_id: 'alice',
    reshape_id: idOf('reshape'),
    trading_key: key('a'),
    inputs: [seeded('none')],
    amounts: [60n, 40n],
    anchor: seeded('reshape anchor'),
    nonce: 12n,
    expiry_slot: 1_500,
    signature: SIGNATURE,
    openings: [undefined],
    ...change,
  }
}
function context() {
  const given = prepared()
  const { world } = given
  const note = world.deposit(key('a'), BASE, 100n)
  const other = world.deposit(key('a'), QUOTE, 100n)
  const foreign = [...world.state.orders.values()].find((one) => one.key.account.account_id === 'bob')!
  const bobs = foreign.collateral.commitment!
  return { ...given, note, other, bobs }
}
type Given = ReturnType<typeof context>
const opened = (note: Given['note']) => ({ commitment: note.commitment, opening: note })

const LATE = { nonce: 11n, expiry_slot: 1 }
const WITHDRAWALS: [RefusalCode, (given: Given) => WithdrawChange][] = [
  ['key_bound', () => ({ ...LATE, trading_key: key('b') })],
  // A suspended account may withdraw: the first refusal is another one.
  ['expiry_too_soon', () => ({ ...LATE, account_id: 'carol', trading_key: key('c') })],
  ['nonce_stale', () => LATE],
  ['expiry_too_soon', () => ({ expiry_slot: 999 })],
  ['expiry_too_far', () => ({ expiry_slot: 2_001 })],
  ['note_unknown', () => ({})],
  ['note_unknown', ({ bobs }) => ({ commitment: bobs })],
  ['note_in_use', ({ live }) => ({ commitment: live.collateral_commitment, amount: 10n ** 12n })],
  ['collateral_insufficient', ({ note }) => ({ ...opened(note), amount: 98n })],
  ['withdraw_below_minimum', ({ note }) => ({ ...opened(note), amount: 9n })],
  ['draining', ({ note }) => ({ ...opened(note), amount: 97n })],
]
for (const [code, change] of WITHDRAWALS) {
  test(`a withdrawal that fails ${code} and later checks answers ${code} and changes nothing`, () => {
    const given = context()
    const outcome = refused(given.world, withdrawing(change(given)), { unavailable: 'draining' })
    expect(outcome.code).toBe(code)
  })
}

test('a nearly full disk refuses a reshape, and no withdrawal', () => {
  const { world, note } = context()
  const env = { unavailable: 'disk_full' } as const
  expect(refused(world, reshaping({ inputs: [note.commitment], openings: [note] }), env).code).toBe(
    'disk_full',
  )
  expect(world.run(withdrawing({ ...opened(note), amount: 97n }), env).ok).toBe(true)
})

test('a withdrawal of the minimum, and one of all that its note covers, are accepted', () => {
  for (const amount of [10n, 97n]) {
    const { world, note } = context()
    world.must(withdrawing({ ...opened(note), amount }))
  }
})

const RESHAPES: [RefusalCode, (given: Given) => ReshapeChange][] = [
  ['key_bound', () => ({ ...LATE, trading_key: key('b') })],
  ['account_suspended', () => ({ ...LATE, account_id: 'carol', trading_key: key('c') })],
  ['nonce_stale', () => LATE],
  ['expiry_too_soon', () => ({ expiry_slot: 999 })],
  ['expiry_too_far', () => ({ expiry_slot: 2_001 })],
  ['note_unknown', () => ({})],
  ['note_unknown', ({ bobs }) => ({ inputs: [bobs] })],
  [
    'note_wrong_mint',
    ({ note, other }) => ({
      inputs: [note.commitment, other.commitment],
      openings: [note, other],
      amounts: [200n],
    }),
  ],
  ['note_in_use', ({ live }) => ({ inputs: [live.collateral_commitment] })],
  [
    'collateral_insufficient',
    ({ note }) => ({ inputs: [note.commitment], openings: [note], amounts: [60n, 41n] }),
  ],
  ['reshape_invalid', ({ note }) => ({ inputs: [note.commitment], openings: [note], amounts: [60n, 39n] })],
  ['draining', ({ note }) => ({ inputs: [note.commitment], openings: [note] })],
]
for (const [code, change] of RESHAPES) {
  test(`a reshape that fails ${code} and later checks answers ${code} and changes nothing`, () => {
    const given = context()
    const outcome = refused(given.world, reshaping(change(given)), { unavailable: 'draining' })
    expect(outcome.code).toBe(code)
  })
}

function kindsOf(world: World, from: number): string[] {
  return world.events.slice(from).map((one) => one.event.kind)
}

test('a withdrawal locks its note, pays in a batch, gives the change back, and a resend learns its first result', () => {
  const { world, note } = context()
  const command = withdrawing({ ...opened(note), amount: 50n })
  const from = world.events.length
  const { answer } = world.must(command)
  expect(answer).toMatchObject({ kind: 'withdraw', result: { status: 'accepted', amount: '50', fee: '3' } })
  expect(
    refused(world, withdrawing({ ...opened(note), nonce: 13n, withdrawal_id: idOf('second') })).code,
  ).toBe('note_in_use')
  world.must({ kind: 'slot', reopens_slot: 0, slot: world.state.slot + 1 })
  world.hashAll()
  expect(payloadOf(world.state, 1)!.payouts).toMatchObject([
    { kind: 'withdrawal', mint: BASE, destination: DESTINATION, amount: 50n },
  ])
  world.landAll()
  expect(kindsOf(world, from)).toEqual([
    'withdrawal.accepted',
    'note.created',
    'withdrawal.submitted',
    'withdrawal.confirmed',
    'withdrawal.finalized',
    'withdrawal.paid',
  ])
  expect(world.events[from + 1]!.event.data).toMatchObject({ amount: '47' })
  expect(world.state.settlement.fees[0]).toBe(3n)
  expect(refused(world, command)).toMatchObject({
    code: 'order_exists',
    facts: { result: answer.kind === 'withdraw' ? answer.result : undefined },
  })
})

test('a payout the chain refused comes back as a note that can be used', () => {
  const { world, note } = context()
  world.must(withdrawing({ ...opened(note), amount: 97n }))
  world.must({ kind: 'slot', reopens_slot: 0, slot: world.state.slot + 1 })
  world.hashAll()
  const refund_commitment = seeded('refund note')
  const refund = {
    outcome: 'refunded' as const,
    refund_commitment,
    refund_leaf_index: world.state.leaves.size,
  }
  for (const stage of ['submitted', 'confirmed', 'finalized'] as const) world.stage(1, stage)
  for (const stage of ['confirmed', 'finalized'] as const) world.payout(1, stage, refund)
  const [refunded, created] = world.events.slice(-2).map((one) => one.event)
  expect(refunded).toMatchObject({
    kind: 'withdrawal.refunded',
    data: { refund_commitment: refund_commitment.toHex() },
  })
  expect(created).toMatchObject({ kind: 'note.created', data: { amount: '97' } })
  world.must({ kind: 'leaves', first_index: world.state.leaves.size, leaves: [refund_commitment], slot: 1 })
  world.must(reshaping({ inputs: [refund_commitment], amounts: [90n, 7n], nonce: 13n }))
})

test('a reshape keeps the sum, its outputs are known from the start, and a resend learns its first result', () => {
  const { world, note } = context()
  const from = world.events.length
  const command = reshaping({ inputs: [note.commitment], openings: [note] })
  const { answer } = world.must(command)
  world.must({ kind: 'slot', reopens_slot: 0, slot: world.state.slot + 1 })
  world.hashAll()
  world.landAll()
  expect(kindsOf(world, from)).toEqual([
    'reshape.accepted',
    'note.created',
    'note.created',
    'reshape.submitted',
    'reshape.confirmed',
    'reshape.finalized',
  ])
  expect(world.events.at(-1)!.event.data).toMatchObject({
    inputs: [note.commitment.toHex()],
    outputs: [{ amount: '60' }, { amount: '40' }],
    settlement_batch: 1,
  })
  expect(refused(world, command)).toMatchObject({
    code: 'order_exists',
    facts: { result: answer.kind === 'reshape' ? answer.result : undefined },
  })
  const taken = refused(world, withdrawing({ withdrawal_id: command.reshape_id, nonce: 1n, expiry_slot: 1 }))
  expect(taken.code).toBe('order_id_taken')
})

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

test('voided payments of a freeze are forgotten after retention and expiry, but not those that settle after all', () => {
  const world = venue()
  withdraw(world, 'packed', 1n)
  pack(world)
  world.stage(1, 'submitted')
  withdraw(world, 'waiting', 2n)
  world.must({ kind: 'halted', reason: 'vault_frozen' })
  world.must({ kind: 'resumed' })
  world.stage(1, 'confirmed')
  world.unix_ms += 2 * 86_400_000
  const keptAt = (slot: number) => {
    world.must({ kind: 'slot', reopens_slot: 0, slot })
    return [...world.state.settlement.payments.keys()]
  }
  const [packed, waiting] = ['packed', 'waiting'].map((name) => idOf(name).toHex())
  expect(keptAt(1_500)).toEqual([packed!, waiting!])
  expect(keptAt(1_501)).toEqual([packed!])
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
  expect(world.state.settlement.payouts_open).toBe(0)
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
  for (const number of [3, 4])
    world.must({ kind: 'queue_restored', next_payout: 9, payouts: [{ number, ...terms }] })
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
