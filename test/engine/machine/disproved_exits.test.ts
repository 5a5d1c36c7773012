/** A packed exit that was never requested leaves its rejected batch: numbers, nullifiers and the note are as without it. */
import { expect, test } from 'bun:test'
import type { NoteFact } from '../../../engine/commands'
import { decodeState } from '../../../engine/machine/codec/decode_state'
import { encodeState } from '../../../engine/machine/codec/encode_state'
import { payloadOf } from '../../../engine/machine/settlement/payload'
import { spentBatch, spentBatches } from '../../../engine/machine/state/batch'
import type { State } from '../../../engine/machine/state/state'
import type { ExitRequest } from '../../../engine/ports'
import { toHex } from '../../../protocol/bytes'
import {
  BASE,
  DESTINATION,
  FIXED_HASH_SEED,
  key,
  LOT,
  QUOTE,
  SIGNATURE,
  seeded,
  World,
} from '../../kit/venue/machine_world'
import { idOf } from './prepared'

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
  [...spentBatches(state)].map(({ nullifiers }) => nullifiers.map((one) => toHex(one)))

for (const known of [false, true])
  test(`an exit of a note that the engine ${known ? 'holds' : 'never saw'} leaves its batch`, () => {
    const { world, request, batches } = packed(known)
    const { state } = world
    const before = spentOf(state)
    const kinds = () => batches.flatMap((id) => numbersOf(state, id))
    const withdrawal = (number: number): [number, 'withdrawal'] => [number, 'withdrawal']
    expect(kinds()).toEqual([withdrawal(1), [2, 'exit'], withdrawal(3), withdrawal(4)])
    expect(spentBatch(state, request.nullifier)?.batch_id).toBe(1)
    report(world, request, 'vanished')
    expect(kinds()).toEqual([withdrawal(1), withdrawal(2), withdrawal(3)])
    expect(state.settlement).toMatchObject({ next_payout: 4, payouts_open: 3 })
    expect(state.settlement.exits.size).toBe(0)
    const gone = toHex(request.nullifier)
    expect(spentOf(state)).toEqual(before.map((batch) => batch.filter((one) => one !== gone)))
    expect(payloadOf(state, 1)!.nullifiers.map((one) => toHex(one))).toEqual(spentOf(state)[0]!)
    expect(spentBatch(state, request.nullifier)).toBeUndefined()
    if (known) expect(state.notes.find(request.commitment)?.status).toBe('free')
    const read = decodeState(encodeState(state), FIXED_HASH_SEED)
    expect(encodeState(read)).toEqual(encodeState(state))
    // The same request, once it is real, is packed like any other.
    report(world, request, 'finalized')
    pack(world)
    expect(numbersOf(state, state.settlement.last_batch)).toEqual([[4, 'exit']])
  })

test('an exit whose batch is not hashed or has landed stays, whatever is reported', () => {
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
  expect(spentBatch(world.state, note.nullifier)?.batch_id).toBe(2)
  expect(world.state.settlement).toMatchObject({ next_payout: 1, payouts_open: 0 })
})

test('an exit that is packed while the batch which spends its nullifier is being hashed leaves its own', () => {
  const { world, note, cross } = resting()
  cross()
  report(world, inventedFor(note), 'finalized')
  pack(world)
  expectWithout(world, 2, [note])
  expect(spentBatch(world.state, note.nullifier)?.batch_id).toBe(1)
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
