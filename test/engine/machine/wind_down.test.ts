/** Forced exits and a frozen vault: notes leave, unlanded batches are void, and an exit that was never requested is dropped. */

import { expect, test } from 'bun:test'
import type { NoteFact } from '../../../engine/commands'
import { decodeState, encodeState } from '../../../engine/machine/codec/state_codec'
import { payloadOf } from '../../../engine/machine/settlement/payload'
import { coverable, spentBatch, spentBatches } from '../../../engine/machine/state/past'
import type { State } from '../../../engine/machine/state/state'
import type { ExitRequest } from '../../../engine/ports'
import { toHex } from '../../../protocol/bytes'
import {
  BASE,
  DESTINATION,
  FIXED_HASH_SEED,
  idOf,
  key,
  LOT,
  QUOTE,
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
  world.must({ kind: 'exit_requested', request: { ...requestFor(openings[1]!), stage: 'confirmed' } })
  expect(kinds(world).slice(-4)).toEqual([
    'reshape.accepted',
    'reshape.voided',
    'note.exited',
    'exit.requested',
  ])
  reshaping(101n, [0])
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

test('a request for an unopened deposit keeps it from being used, and final, it is paid', () => {
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

test('an exit of a mint that no setting names is served, so none can freeze the vault', () => {
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

test('a frozen vault cancels every order and voids fills and payments that did not land, for good', () => {
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
  // The chain disproves the freeze: trading goes on, and packed batches settle after all.
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

function withdraw(world: World, name: string, nonce: bigint): NoteFact {
  const note = world.deposit(key('a'), BASE, 1_000n)
  const facts = { account_id: 'alice', trading_key: key('a'), signature: SIGNATURE, nonce } as const
  const terms = { destination: DESTINATION, amount: 900n, expiry_slot: 1_500, change_anchor: seeded(name) }
  const names = { withdrawal_id: idOf(name), commitment: note.commitment, opening: note }
  world.must({ ...facts, ...terms, ...names, kind: 'withdraw' })
  return note
}

const requestOf = (note: Pick<NoteFact, 'nullifier' | 'commitment'>): Omit<ExitRequest, 'stage'> => ({
  mint: BASE,
  amount: 5n,
  destination: DESTINATION,
  deadline_unix_s: 2_000_000_000,
  nullifier: note.nullifier,
  commitment: note.commitment,
  request_account: seeded('request'),
  refund_inner: seeded('inner'),
})

const report = (world: World, request: Omit<ExitRequest, 'stage'>, stage: ExitRequest['stage']) =>
  world.must({ kind: 'exit_requested', request: { ...request, stage } })

function pack(world: World): void {
  world.must({ kind: 'slot', reopens_slot: 0, slot: world.state.slot + 25 })
  world.hashAll()
}

/** Four payouts in several batches, the second of them the exit. */
function packed(known: boolean) {
  const world = new World()
  world.account('alice')
  const stranger = { nullifier: seeded('n'), commitment: seeded('c') }
  // The exit voids this withdrawal.
  const note = known ? withdraw(world, 'voided', 1n) : stranger
  withdraw(world, 'first', 2n)
  const request = requestOf(note)
  report(world, request, 'finalized')
  for (const [name, nonce] of [
    ['third', 3n],
    ['fourth', 4n],
  ] as const) {
    withdraw(world, name, nonce)
    pack(world)
  }
  return { world, request, batches: [...world.state.settlement.batches.keys()] }
}

const numbersOf = (state: State, batch_id: number) =>
  payloadOf(state, batch_id)!.payouts.map(({ number, kind }) => [number, kind])
const spentOf = (state: State) =>
  [...spentBatches(state, undefined, 1)].map(({ nullifiers }) => nullifiers.map((one) => toHex(one)))

for (const known of [false, true])
  test(`an exit of a note that the engine ${known ? 'holds' : 'never saw'} leaves its batch`, () => {
    const { world, request, batches } = packed(known)
    const { state } = world
    const before = spentOf(state)
    const kinds = () => batches.flatMap((id) => numbersOf(state, id))
    const withdrawal = (number: number): [number, 'withdrawal'] => [number, 'withdrawal']
    expect(kinds()).toEqual([withdrawal(1), [2, 'exit'], withdrawal(3), withdrawal(4)])
    expect(spentBatch(state, undefined, request.nullifier)?.batch_id).toBe(1)
    report(world, request, 'vanished')
    expect(kinds()).toEqual([withdrawal(1), withdrawal(2), withdrawal(3)])
    expect(state.settlement).toMatchObject({ next_payout: 4, payouts_open: 3 })
    expect(state.settlement.exits.size).toBe(0)
    const gone = toHex(request.nullifier)
    expect(spentOf(state)).toEqual(before.map((batch) => batch.filter((one) => one !== gone)))
    expect(payloadOf(state, 1)!.nullifiers.map((one) => toHex(one))).toEqual(spentOf(state)[0]!)
    expect(spentBatch(state, undefined, request.nullifier)).toBeUndefined()
    if (known) expect(state.notes.find(request.commitment)?.status).toBe('free')
    const read = decodeState(encodeState(state), FIXED_HASH_SEED)
    expect(encodeState(read)).toEqual(encodeState(state))
    // The same request, once it is real, is packed like any other.
    report(world, request, 'finalized')
    pack(world)
    expect(numbersOf(state, state.settlement.last_batch)).toEqual([[4, 'exit']])
  })

test('an exit whose batch is not hashed or has landed stays, for any report', () => {
  const { world, request } = packed(false)
  world.stage(1, 'submitted')
  world.stage(1, 'confirmed')
  report(world, request, 'vanished')
  expect(numbersOf(world.state, 1)).toContainEqual([2, 'exit'])
  world.stage(1, 'finalized')
  report(world, request, 'vanished')
  expect(world.state.settlement.exits.size).toBe(1)
  const later = requestOf({ nullifier: seeded('n2'), commitment: seeded('c2') })
  report(world, later, 'finalized')
  world.must({ kind: 'slot', reopens_slot: 0, slot: world.state.slot + 25 })
  report(world, later, 'vanished')
  expect(world.state.settlement.batches.get(world.state.settlement.last_batch)!.payouts).toHaveLength(1)
})

/** The true nullifier of a note under the commitment of another. */
const inventedFor = ({ nullifier }: NoteFact) => requestOf({ nullifier, commitment: seeded('false') })

/** A resting order, and another that crosses it in the next batch. */
function resting() {
  const world = new World()
  for (const id of ['alice', 'bob']) world.account(id)
  const note = world.deposit(key('a'), QUOTE, 2_000n * LOT)
  const named = { collateral_commitment: note.commitment, opening: note }
  world.place('alice', key('a'), named)
  const cross = () => {
    world.place('bob', key('b'), { side: 'sell' })
    return world.close()
  }
  return { world, note, cross }
}

/** No batch pays an exit, and the log holds each nullifier once, as the payloads and a snapshot do. */
function expectWithout(world: World, batches: number, spent: readonly NoteFact[]): void {
  const { state } = world
  const payloads = Array.from({ length: batches }, (_, at) => payloadOf(state, at + 1)!)
  expect(payloads.flatMap(({ payouts }) => payouts.filter(({ kind }) => kind === 'exit'))).toEqual([])
  expect(payloads.map(({ nullifiers }) => nullifiers.map((one) => toHex(one)))).toEqual(spentOf(state))
  const all = spentOf(state).flat()
  expect(new Set(all).size).toBe(all.length)
  for (const { nullifier } of spent) expect(all).toContain(toHex(nullifier))
  expect(state.settlement.exits.size).toBe(0)
  const read = decodeState(encodeState(state), FIXED_HASH_SEED)
  expect(encodeState(read)).toEqual(encodeState(state))
}

test('an exit with the nullifier of a note that its own batch spends leaves it before it counts', () => {
  const world = new World()
  world.account('alice')
  const first = withdraw(world, 'first', 1n)
  report(world, inventedFor(first), 'finalized')
  const second = withdraw(world, 'second', 2n)
  world.must({ kind: 'slot', reopens_slot: 0, slot: world.state.slot + 25 })
  const kinds = [...world.state.settlement.batches.values()].map(({ payouts }) =>
    payouts.map((one) => one.kind),
  )
  expect(kinds).toEqual([['withdrawal', 'exit'], ['withdrawal']])
  world.hashAll()
  expectWithout(world, 2, [first, second])
  expect([1, 2].flatMap((id) => numbersOf(world.state, id))).toEqual([
    [1, 'withdrawal'],
    [2, 'withdrawal'],
  ])
  expect(world.state.settlement).toMatchObject({ next_payout: 3, payouts_open: 2 })
})

test('an exit with the nullifier of a note that a later batch spends leaves its own, which has not landed', () => {
  const { world, note, cross } = resting()
  report(world, inventedFor(note), 'finalized')
  pack(world)
  expect(numbersOf(world.state, 1)).toEqual([[1, 'exit']])
  const { auctions } = cross()
  expect(auctions[0]).toMatchObject({ volume_lots: 10 })
  world.hashAll()
  expectWithout(world, 2, [note])
  expect(spentBatch(world.state, undefined, note.nullifier)?.batch_id).toBe(2)
  expect(world.state.settlement).toMatchObject({ next_payout: 1, payouts_open: 0 })
})

test('an exit that is packed while the batch which spends its nullifier is being hashed leaves its own', () => {
  const { world, note, cross } = resting()
  cross()
  report(world, inventedFor(note), 'finalized')
  pack(world)
  expectWithout(world, 2, [note])
  expect(spentBatch(world.state, undefined, note.nullifier)?.batch_id).toBe(1)
})

test('a nullifier that a landed exit spent is not spent again, until its batch is taken back', () => {
  const { world, note, cross } = resting()
  report(world, inventedFor(note), 'finalized')
  pack(world)
  world.stage(1, 'submitted')
  world.stage(1, 'confirmed')
  cross()
  const before = spentOf(world.state)
  expect(() => world.hashAll()).toThrow('a nullifier is spent twice')
  expect(spentOf(world.state)).toEqual(before)
  world.stage(1, 'submitted')
  world.hashAll()
  expectWithout(world, 2, [note])
})

test('the nullifier of a landed batch stays in the state while a waiting exit has it, and then leaves', () => {
  const { world, note, cross } = resting()
  cross()
  report(world, inventedFor(note), 'finalized')
  world.hashAll()
  for (const stage of ['submitted', 'confirmed', 'finalized'] as const) world.stage(1, stage)
  const { state } = world
  expect(coverable(state).nullifiers).toBe(state.nullifiers.indexOf(note.nullifier)!)
  expect(coverable(state).nullifiers).toBeLessThan(state.nullifiers.size)
  pack(world)
  expect(state.settlement.exits.size).toBe(0)
  expect(coverable(state).nullifiers).toBe(state.nullifiers.size)
})
