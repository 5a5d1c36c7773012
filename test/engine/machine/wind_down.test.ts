/** Forced exits and a frozen vault: notes leave, what did not land is void. */
import { expect, test } from 'bun:test'
import type { NoteFact } from '../../../engine/commands'
import { decodeState } from '../../../engine/machine/codec/decode_state'
import { encodeState } from '../../../engine/machine/codec/encode_state'
import { payloadOf } from '../../../engine/machine/settlement/payload'
import type { ExitRequest } from '../../../engine/ports'
import {
  BASE,
  DESTINATION,
  FIXED_HASH_SEED,
  key,
  LOT,
  SIGNATURE,
  seeded,
  TICK,
  World,
} from '../../kit/venue/machine_world'

function venue() {
  const world = new World()
  for (const name of ['alice', 'bob']) world.account(name)
  const note = world.deposit(key('a'), BASE, 10n * LOT)
  const used = { collateral_commitment: note.commitment, opening: note }
  const order = world.place('alice', key('a'), { side: 'sell', price_limit: 99n * TICK, ...used })
  const request = (stage: ExitRequest['stage']) =>
    world.must({
      kind: 'exit_requested',
      request: { ...requestFor(note), stage },
    })
  return { world, note, used, order, request }
}
/** The chain's record of a request for a note. */
function requestFor(note: Pick<NoteFact, 'nullifier' | 'commitment' | 'mint' | 'amount'>) {
  const { nullifier, commitment, mint, amount } = note
  return {
    nullifier,
    commitment,
    mint,
    amount,
    destination: DESTINATION,
    deadline_unix_s: 2_000_000_000,
    request_account: seeded('request'),
    refund_inner: seeded('refund inner'),
  }
}
const kinds = (world: World) =>
  world.events.map((one) => one.event.kind).filter((kind) => kind !== 'account.changed')

test('a confirmed exit request freezes the note and cancels its order; final, it is paid in a batch', () => {
  const { world, note, used, order, request } = venue()
  request('confirmed')
  expect(kinds(world)).toEqual(['order.accepted', 'order.cancelled', 'note.exited', 'exit.requested'])
  expect(world.state.finals.find(Uint8Array.fromHex(order))!.reason).toBe('note_exited')
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

test('a request for a note that waits to be reshaped voids the reshape and frees its other notes', () => {
  const { world } = venue()
  const notes = [20n, 30n].map((amount) => world.deposit(key('a'), BASE, amount))
  const inputs = notes.map(({ commitment }) => commitment).sort(Buffer.compare)
  const openings = inputs.map((input) => notes.find(({ commitment }) => commitment === input))
  const reshaping = (nonce: bigint, some: number[]) =>
    world.must({
      kind: 'reshape',
      reshape_id: seeded(`reshape ${nonce}`).slice(0, 16),
      account_id: 'alice',
      trading_key: key('a'),
      inputs: some.map((at) => inputs[at]!),
      openings: some.map((at) => openings[at]),
      amounts: [some.reduce((sum, at) => sum + openings[at]!.amount, 0n)],
      anchor: seeded(`anchor ${nonce}`),
      nonce,
      expiry_slot: 1_500,
      signature: SIGNATURE,
    })
  reshaping(100n, [0, 1])
  world.must({ kind: 'exit_requested', request: { ...requestFor(openings[0]!), stage: 'confirmed' } })
  expect(kinds(world).slice(-4)).toEqual([
    'reshape.accepted',
    'reshape.voided',
    'note.exited',
    'exit.requested',
  ])
  reshaping(101n, [1])
  world.close()
  expect([...world.state.settlement.batches.values()].map(({ inputs }) => inputs.length)).toEqual([1])
})

test('a request that vanished in a fork unlocks the note; its order stays cancelled', () => {
  const { world, used, order, request } = venue()
  request('confirmed')
  request('vanished')
  expect(world.state.orders.find(Uint8Array.fromHex(order))).toBeUndefined()
  world.must(world.placing('alice', key('a'), { side: 'sell', ...used }))
})

test('a request for a deposit nobody opened keeps it from being used, and final, it is paid', () => {
  const { world } = venue()
  const note = world.deposit(key('b'), BASE, LOT)
  const request = requestFor(note)
  world.must({ kind: 'exit_requested', request: { ...request, stage: 'confirmed' } })
  const used = { collateral_commitment: note.commitment, opening: note }
  const placing = () => world.run(world.placing('bob', key('b'), { side: 'sell', amount: LOT, ...used }))
  expect(placing()).toMatchObject({ ok: false, code: 'note_in_use' })
  world.close()
  expect(world.state.settlement.last_batch).toBe(0)
  world.must({ kind: 'exit_requested', request: { ...request, stage: 'finalized' } })
  world.close()
  world.state = decodeState(encodeState(world.state), FIXED_HASH_SEED)
  world.hashAll()
  const { nullifier, mint, amount } = note
  const { destination, refund_inner } = request
  expect(payloadOf(world.state, 1)).toMatchObject({
    nullifiers: [nullifier],
    outputs: [],
    payouts: [{ kind: 'exit', mint, destination, amount, refund_inner, nullifier }],
    leaf_count_min: note.leaf_index! + 1,
  })
  world.landAll()
  expect(world.state.settlement.exits.size).toBe(0)
  expect(placing()).toMatchObject({ ok: false, code: 'note_spent' })
  world.must({ kind: 'exit_requested', request: { ...request, stage: 'finalized' } })
  expect(world.state.settlement.exits.size).toBe(0)
})

test('an exit of a mint that no setting names is served, so nobody can freeze the vault with one', () => {
  const { world } = venue()
  const foreign = {
    mint: seeded('foreign mint'),
    amount: 5n,
    commitment: seeded('c'),
    nullifier: seeded('n'),
  }
  world.must({ kind: 'exit_requested', request: { ...requestFor(foreign), stage: 'finalized' } })
  world.close()
  world.hashAll()
  expect(payloadOf(world.state, 1)!.payouts).toMatchObject([{ kind: 'exit', mint: foreign.mint, amount: 5n }])
  world.landAll()
  expect(world.state.settlement.exits.size).toBe(0)
})

test('a request that names a known note and a nullifier that is not its own does not freeze it', () => {
  const { world, note, order } = venue()
  const nullifier = seeded('of another note')
  world.must({ kind: 'exit_requested', request: { ...requestFor(note), nullifier, stage: 'confirmed' } })
  expect(world.state.orders.find(Uint8Array.fromHex(order))).toBeDefined()
})

test('a refund whose owner asked for it before the venue knew it is frozen, or gone with its batch', () => {
  for (const served of [false, true]) {
    const { world } = venue()
    const note = world.deposit(key('b'), BASE, 1_000n)
    const facts = { account_id: 'bob', trading_key: key('b'), signature: SIGNATURE, opening: note }
    world.must({
      ...facts,
      kind: 'withdraw',
      withdrawal_id: seeded('withdrawal').slice(0, 16),
      commitment: note.commitment,
      destination: DESTINATION,
      amount: 900n,
      nonce: 50n,
      expiry_slot: 1_500,
      change_anchor: seeded('anchor'),
    })
    world.close()
    world.hashAll()
    const refund = { mint: BASE, amount: 900n, commitment: seeded('refund'), nullifier: seeded('its own') }
    world.must({ kind: 'exit_requested', request: { ...requestFor(refund), stage: 'finalized' } })
    if (served) {
      world.stage(1, 'confirmed')
      world.close()
    }
    world.stage(1, 'finalized')
    const outcome = {
      outcome: 'refunded' as const,
      refund_commitment: refund.commitment,
      refund_leaf_index: 9,
    }
    world.payout(1, 'finalized', outcome)
    expect(world.state.notes.find(refund.commitment)?.status).toBe(served ? undefined : 'exiting')
    world.close()
    world.hashAll()
    expect(payloadOf(world.state, 2)!.nullifiers).toHaveLength(1)
  }
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
  const from = kinds(world).length
  world.must({ kind: 'halted', reason: 'vault_frozen' })
  expect(kinds(world).slice(from)).toEqual([
    'order.cancelled',
    'withdrawal.voided',
    'fill.voided',
    'fill.voided',
  ])
  const refused = world.run(world.placing('bob', key('b'), { nonce: 51n }))
  expect(refused).toMatchObject({ ok: false, code: 'matching_unavailable' })
  // The chain disproves the freeze: trading goes on, and what was packed settles after all.
  world.must({ kind: 'resumed' })
  expect(world.run(world.placing('bob', key('b'), { nonce: 51n }))).toMatchObject({ ok: true })
  const lifted = kinds(world).length
  const stage = { batch_id: 1, signature: new Uint8Array(64), slot: 1_000, payouts: [] }
  world.must({ kind: 'batch_stage', stage: { ...stage, stage: 'confirmed' } })
  expect(kinds(world).slice(lifted)).toEqual(['fill.confirmed', 'fill.confirmed'])
})

test('a pause does not hide a graver halt, and its end does not end that', () => {
  const { world } = venue()
  world.must({ kind: 'halted', reason: 'program_error' })
  world.must({ kind: 'halted', reason: 'vault_paused' })
  expect(world.state.halted).toBe('program_error')
  world.must({ kind: 'halted', reason: 'vault_frozen' })
  expect(world.state.halted).toBe('vault_frozen')
})
