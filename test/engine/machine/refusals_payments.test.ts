/** Every refusal of withdrawals and reshapes, in the order of checks, and how they settle. */
import { expect, test } from 'bun:test'
import type { CommandOf } from '../../../engine/commands'
import { payloadOf } from '../../../engine/machine/settlement/payload'
import type { RefusalCode } from '../../../protocol/refusals'
import { BASE, DESTINATION, key, QUOTE, SIGNATURE, seeded, type World } from '../../kit/venue/machine_world'
import { idOf, prepared, refused } from './prepared'

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
