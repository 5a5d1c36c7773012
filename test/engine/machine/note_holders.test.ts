/** Notes live exactly while something refers to them, and no reference ever sees another note. Failures print their seed. */

import { expect, test } from 'bun:test'
import fc from 'fast-check'
import type { CommandBody, NoteFact } from '../../../engine/commands'
import { decodeState, encodeState } from '../../../engine/machine/codec/state_codec'
import { payloadOf } from '../../../engine/machine/settlement/payload'
import { appendSpent } from '../../../engine/machine/state/batch'
import {
  type Note,
  Notes,
  notesOfBatch,
  notesOfFills,
  notesOfPayment,
} from '../../../engine/machine/state/note'
import type { State } from '../../../engine/machine/state/state'
import { RowQueue } from '../../../engine/memory/row_queue'
import { nullifierOf } from '../../../protocol/notes/notes'
import type { RefusalCode } from '../../../protocol/refusals'
import type { NoteEvent } from '../../../protocol/wire/trading'
import {
  BASE,
  DESTINATION,
  FIXED_HASH_SEED,
  idOf,
  key,
  LOT,
  refused,
  SIGNATURE,
  seeded,
  TICK,
  World,
} from '../../kit/venue/machine_world'
import { played, steps } from './random_commands'

/** How many hold each note, counted from the holders. */
function holders(state: State): Map<number, number> {
  const { settlement, closed } = state
  const held = [...state.orders.values()].flatMap((order) => [order.collateral, ...notesOfFills(order.fills)])
  for (const batch of settlement.batches.values()) held.push(...notesOfBatch(batch))
  for (const payment of settlement.payments.values()) held.push(...notesOfPayment(payment))
  for (const { note } of settlement.exits.values()) if (note !== undefined) held.push(note)
  for (const one of closed?.waiting ?? [])
    if (one.kind === 'modify' && one.note !== undefined) held.push(one.note)
  const counts = new Map<number, number>()
  for (const { handle } of held) counts.set(handle, (counts.get(handle) ?? 0) + 1)
  return counts
}

function checkHolds(state: State): void {
  const counts = holders(state)
  const living = new Set(counts.keys())
  for (const note of state.notes.values()) living.add(note.handle)
  for (const handle of living) expect(state.notes.holds(state.notes.at(handle))).toBe(counts.get(handle) ?? 0)
  expect(state.notes.lives).toBe(living.size)
  for (const handle of living) {
    const { commitment, landed, known } = state.notes.at(handle)
    if (known) expect(landed).toBe(state.leaves.has(commitment!))
  }
}

test('notes are kept exactly while something refers to them, and know whether their leaf is final, also after a snapshot', () => {
  fc.assert(
    fc.property(steps, (stream) => {
      const world = played(stream, ({ state }, at) => {
        if (at % 8 === 0) checkHolds(state)
      })
      checkHolds(world.state)
      checkHolds(decodeState(encodeState(world.state), FIXED_HASH_SEED))
    }),
    { numRuns: 30 },
  )
})

const facts = (serial: number) => ({
  owner: seeded(`owner ${serial % 3}`),
  mint: serial % 5,
  amount: BigInt(serial) * 10n ** 15n,
  status: 'free' as const,
  commitment: seeded(`commitment ${serial}`),
  blinding: seeded(`blinding ${serial}`),
})

type Modelled = {
  note: Note
  serial: number
  leaf: number | undefined
  landed: boolean
  spent: boolean
  holds: number
  known: boolean
}

/** A third of the notes is opened at a final leaf, a third cites a leaf that is not final, a third has none yet. */
function create(notes: Notes, serial: number): Modelled {
  const leaf = serial % 3 === 0 ? undefined : serial
  const landed = serial % 3 === 1
  const note = notes.create(
    leaf === undefined ? facts(serial) : { ...facts(serial), leaf_index: leaf, landed },
  )
  notes.register(note)
  return { note, serial, leaf, landed, spent: false, holds: 0, known: true }
}

function change(notes: Notes, one: Modelled, op: string): void {
  if (op === 'hold') {
    notes.hold(one.note)
    one.holds++
  } else if (op === 'drop' && one.holds > 0) {
    notes.drop(one.note)
    one.holds--
  } else if (op === 'forget' && one.known) {
    notes.forget(one.note)
    one.known = false
  } else if (op === 'spend') {
    one.note.status = 'spent'
    one.spent = true
  } else if (op === 'land') {
    one.note.land()
    one.landed = true
  }
}

const moves = fc.array(
  fc.record({
    op: fc.constantFrom('create', 'create', 'hold', 'drop', 'forget', 'spend', 'land'),
    pick: fc.nat(1_000),
  }),
  { minLength: 20, maxLength: 400 },
)

test('the memory of notes agrees with a map of objects, and a reference to a note that is gone says so', () => {
  fc.assert(
    fc.property(moves, (stream) => {
      const key_index = new RowQueue(32, 32, FIXED_HASH_SEED)
      const notes = new Notes({ key_index, key_list: [] }, FIXED_HASH_SEED)
      const model: Modelled[] = []
      stream.forEach(({ op, pick }, serial) => {
        if (op === 'create') {
          model.push(create(notes, serial))
          return
        }
        const one = model[pick % Math.max(1, model.length)]
        if (one === undefined) return
        const alive = one.known || one.holds > 0
        if (!alive) {
          expect(() => one.note.amount).toThrow('gone')
          expect(() => notes.hold(one.note)).toThrow('gone')
          return
        }
        change(notes, one, op)
      })
      const known = model.filter((one) => one.known)
      expect([...notes.values()].map(({ handle }) => handle)).toEqual(known.map(({ note }) => note.handle))
      expect(notes.size).toBe(known.length)
      expect(notes.lives).toBe(model.filter((one) => one.known || one.holds > 0).length)
      for (const { note, serial, leaf, landed, spent, holds, known } of model) {
        const { status: _, ...expected } = facts(serial)
        if (!known && holds === 0) continue
        expect(notes.find(expected.commitment)?.is(note) ?? false).toBe(known)
        const { owner, mint, amount, commitment, blinding, leaf_index } = note
        const found = { owner, mint, amount, commitment, blinding, leaf_index }
        expect(found).toEqual({ leaf_index: leaf, ...expected })
        expect(note.landed).toBe(landed)
        expect(note.spent_in).toBe(0)
        expect(note.status).toBe(spent ? 'spent' : 'free')
      }
    }),
    { numRuns: 60 },
  )
})

const ALICE = { unix_ms: 0, account_id: 'alice', trading_key: key('a'), signature: SIGNATURE } as const
const DEPOSITED = 20n * LOT
const FEE = 3n
const REFUNDED = DEPOSITED - FEE

type Named = { commitment: Uint8Array; opening: NoteFact | undefined }

function withdrawing(name: string, nonce: bigint, named: Named, amount: bigint): CommandBody {
  const change_anchor = seeded(`${name} anchor`)
  const terms = { destination: DESTINATION, amount, nonce, expiry_slot: 1_500, change_anchor }
  return { ...ALICE, ...named, ...terms, kind: 'withdraw', withdrawal_id: idOf(name) }
}

/** The ways to use a note of at least 10 lots. */
const USES: Record<string, (world: World, name: string, nonce: bigint, named: Named) => CommandBody> = {
  'an order': (world, name, nonce, { commitment, opening }) =>
    world.placing('alice', key('a'), {
      order_id: idOf(name),
      digest: seeded(name),
      side: 'sell',
      price_limit: 200n * TICK,
      nonce,
      collateral_commitment: commitment,
      opening,
    }),
  'a withdrawal': (_, name, nonce, named) => withdrawing(name, nonce, named, 10n * LOT),
  'a reshape': (_, name, nonce, { commitment, opening }) => ({
    ...ALICE,
    kind: 'reshape',
    reshape_id: idOf(name),
    inputs: [commitment],
    amounts: [10n * LOT, REFUNDED - 10n * LOT],
    anchor: seeded(`${name} anchor`),
    nonce,
    expiry_slot: 1_500,
    openings: [opening],
  }),
}

/** A withdrawal that the chain refunded: its leaf is final, the news that its payout is final is still on the way. */
function refundedOnChain() {
  const world = new World()
  world.account('alice')
  const deposit = world.deposit(key('a'), BASE, DEPOSITED)
  world.must(withdrawing('first', 1n, { commitment: deposit.commitment, opening: deposit }, REFUNDED))
  world.must({ kind: 'slot', reopens_slot: 0, slot: world.state.slot + 1 })
  world.hashAll()
  // The program's note, by the opening its owner reads on chain: in deposit form, at the leaf of its deposit.
  const note = world.deposit(key('a'), BASE, REFUNDED)
  const refund = { refund_commitment: note.commitment, refund_leaf_index: note.leaf_index }
  const outcome = { outcome: 'refunded' as const, ...refund }
  for (const stage of ['submitted', 'confirmed', 'finalized'] as const) world.stage(1, stage)
  world.payout(1, 'confirmed', outcome)
  return { world, note, finalize: () => world.payout(1, 'finalized', outcome) }
}

/** Every use of the note, with and without its opening, is rejected and changes nothing. */
function expectRefused(world: World, note: NoteFact, code: RefusalCode): void {
  for (const [use, commandOf] of Object.entries(USES)) {
    for (const opening of [undefined, note]) {
      const again = commandOf(world, `${use} again`, 100n, { commitment: note.commitment, opening })
      expect(refused(world, again).code).toBe(code)
    }
  }
}

/** Amounts of unspent notes, plus the fees taken. */
function owed({ state }: World): bigint {
  const unspent = [...state.notes.values()].filter(({ status }) => status !== 'spent')
  return unspent.reduce((sum, { amount }) => sum + amount, state.settlement.fees[0]!)
}

for (const [use, commandOf] of Object.entries(USES)) {
  test(`a refund note that backs ${use} before its payout is final cannot be used again after`, () => {
    const { world, note, finalize } = refundedOnChain()
    world.must(commandOf(world, 'second', 2n, { commitment: note.commitment, opening: note }))
    const held = world.state.notes.find(note.commitment)!
    finalize()
    expectRefused(world, note, 'note_in_use')
    expect(world.state.notes.find(note.commitment)!.is(held)).toBe(true)
    expect(owed(world)).toBe(DEPOSITED)
  })
}

for (const use of ['a withdrawal', 'a reshape']) {
  test(`a refund note that ${use} spends before its payout is final stays spent, and every unit is owed once`, () => {
    const { world, note, finalize } = refundedOnChain()
    world.must(USES[use]!(world, 'second', 2n, { commitment: note.commitment, opening: note }))
    for (let step = 0; step < 30 && !world.state.settlement.batches.has(2); step++) {
      world.must({ kind: 'slot', reopens_slot: 0, slot: world.state.slot + 1 })
    }
    world.hashAll()
    const { nullifiers, payouts } = payloadOf(world.state, 2)!
    expect(nullifiers.length).toBe(1)
    const paid = payouts.reduce((sum, { amount }) => sum + amount, 0n)
    finalize()
    expectRefused(world, note, 'note_spent')
    expect(owed(world) + paid).toBe(DEPOSITED)
    world.landAll()
    expect(world.state.settlement.batches.size).toBe(0)
    expectRefused(world, note, 'note_spent')
    expect(owed(world) + paid).toBe(DEPOSITED)
  })
}

test('a refund note whose order was cancelled before its payout is final is free once, with one note', () => {
  const { world, note, finalize } = refundedOnChain()
  world.must(USES['an order']!(world, 'second', 2n, { commitment: note.commitment, opening: note }))
  world.must({ ...ALICE, kind: 'cancel', order_id: idOf('second'), cancel_nonce: 1n })
  finalize()
  expect(owed(world)).toBe(DEPOSITED)
  world.must(USES['a withdrawal']!(world, 'third', 3n, { commitment: note.commitment, opening: undefined }))
  expectRefused(world, note, 'note_in_use')
})

test('a refund note that is spent, settled and forgotten before its payout is final is not made again', () => {
  const { world, note, finalize } = refundedOnChain()
  const withdrawal = [...world.state.settlement.payments.values()].find((one) => one.kind === 'withdrawal')!
  world.must(USES['a reshape']!(world, 'second', 2n, { commitment: note.commitment, opening: note }))
  for (let step = 0; step < 30; step++)
    world.must({ kind: 'slot', slot: world.state.slot + 1, reopens_slot: 0 })
  world.hashAll()
  world.landBatches()
  expect(world.state.notes.find(note.commitment)).toBeUndefined()
  // The nullifier that the refund's own blinding gives; the world's hashes are not Poseidon.
  appendSpent(world.state, 1, [nullifierOf(note.commitment, withdrawal.refund_blinding!)])
  finalize()
  expectRefused(world, note, 'note_spent')
  expect(owed(world)).toBe(DEPOSITED)
})

test('a refund note is announced as collateral unless a packed batch spends it already', () => {
  const announced = (use: string | undefined) => {
    const { world, note, finalize } = refundedOnChain()
    const named = { commitment: note.commitment, opening: note }
    if (use !== undefined) world.must(USES[use]!(world, 'second', 2n, named))
    for (let step = 0; step < 30; step++)
      world.must({ kind: 'slot', slot: world.state.slot + 1, reopens_slot: 0 })
    finalize()
    const created = world.events.filter(({ event }) => event.kind === 'note.created')
    return created.map(({ event }) => (event.data as NoteEvent).commitment === note.commitment.toHex())
  }
  expect(announced(undefined)).toEqual([true])
  expect(announced('a reshape')).toEqual([])
})
