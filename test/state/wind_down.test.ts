/** Forced exits and a frozen vault: notes leave, what did not land is void. */
import { expect, test } from 'bun:test'
import type { ExitRequest } from '../../engine/ports'
import { payloadOf } from '../../engine/settlement/payload_of'
import { BASE, DESTINATION, key, LOT, SIGNATURE, seeded, TICK, World } from './world'

function venue() {
  const world = new World()
  for (const name of ['alice', 'bob']) world.account(name)
  const note = world.deposit(key('a'), BASE, 10n * LOT)
  const used = { collateral_commitment: note.commitment, opening: note }
  const order = world.place('alice', key('a'), { side: 'sell', price_limit: 99n * TICK, ...used })
  const request = (stage: ExitRequest['stage']) =>
    world.must({
      kind: 'exit_requested',
      request: {
        nullifier: note.nullifier,
        mint: BASE,
        amount: note.amount,
        destination: DESTINATION,
        deadline_unix_s: 2_000_000_000,
        request_account: seeded('request'),
        refund_inner: seeded('refund inner'),
        stage,
      },
    })
  return { world, note, used, order, request }
}
const kinds = (world: World) => world.events.map((one) => one.event.kind)

test('a confirmed exit request freezes the note and cancels its order; final, it is paid in a batch', () => {
  const { world, note, used, order, request } = venue()
  request('confirmed')
  expect(kinds(world)).toEqual(['order.accepted', 'order.cancelled', 'note.exited'])
  expect(world.state.finals.get(order)!.reason).toBe('note_exited')
  const again = world.run(world.placing('alice', key('a'), { side: 'sell', ...used }))
  expect(again).toMatchObject({ ok: false, code: 'note_in_use' })
  world.close()
  expect(world.state.settlement.last_batch).toBe(0)
  request('finalized')
  world.close()
  world.hashAll()
  expect(payloadOf(world.state, 1)).toMatchObject({
    nullifiers: [note.nullifier],
    outputs: [],
    payouts: [
      { kind: 'exit', destination: DESTINATION, amount: note.amount, refund_inner: seeded('refund inner') },
    ],
  })
  request('finalized')
  world.landAll()
  expect(world.state.settlement.exits.size).toBe(0)
  const spent = world.run(world.placing('alice', key('a'), { side: 'sell', ...used }))
  expect(spent).toMatchObject({ ok: false, code: 'note_spent' })
})

test('a request that vanished in a fork unlocks the note; its order stays cancelled', () => {
  const { world, used, order, request } = venue()
  request('confirmed')
  request('vanished')
  expect(world.state.orders.has(order)).toBe(false)
  world.must(world.placing('alice', key('a'), { side: 'sell', ...used }))
})

test('a request for a deposit nobody opened yet keeps it from being used', () => {
  const { world } = venue()
  const note = world.deposit(key('b'), BASE, LOT)
  const { nullifier, mint, amount } = note
  const facts = { destination: DESTINATION, deadline_unix_s: 1, request_account: seeded('request') }
  world.must({ kind: 'exit_requested', request: { nullifier, mint, amount, ...facts, stage: 'confirmed' } })
  const used = { collateral_commitment: note.commitment, opening: note }
  const refused = world.run(world.placing('bob', key('b'), { side: 'sell', amount: LOT, ...used }))
  expect(refused).toMatchObject({ ok: false, code: 'note_in_use' })
})

test('a frozen vault cancels every order and voids fills and payments that did not land, for ever', () => {
  const { world } = venue()
  world.place('bob', key('b'), { price_limit: 99n * TICK, amount: 4n * LOT })
  world.close()
  world.hashAll()
  const waiting = world.deposit(key('b'), BASE, 100n)
  world.must({
    kind: 'withdraw',
    account_id: 'bob',
    withdrawal_id: seeded('withdrawal').slice(0, 16),
    trading_key: key('b'),
    commitment: waiting.commitment,
    destination: DESTINATION,
    amount: 50n,
    nonce: 50n,
    expiry_slot: 1_500,
    change_anchor: seeded('anchor'),
    signature: SIGNATURE,
    opening: waiting,
  })
  const from = world.events.length
  world.must({ kind: 'halted', reason: 'vault_frozen' })
  expect(kinds(world).slice(from)).toEqual([
    'order.cancelled',
    'withdrawal.voided',
    'fill.voided',
    'fill.voided',
  ])
  world.must({ kind: 'resumed' })
  const refused = world.run(world.placing('bob', key('b'), { nonce: 51n }))
  expect(refused).toMatchObject({ ok: false, code: 'matching_unavailable' })
})

test('a pause does not hide a graver halt, and its end does not end that', () => {
  const { world } = venue()
  world.must({ kind: 'halted', reason: 'program_error' })
  world.must({ kind: 'halted', reason: 'vault_paused' })
  expect(world.state.halted).toBe('program_error')
  world.must({ kind: 'halted', reason: 'vault_frozen' })
  expect(world.state.halted).toBe('vault_frozen')
})
