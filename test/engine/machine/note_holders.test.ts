/** Notes live exactly while something refers to them, and no reference ever sees another note. Failures print their seed. */

import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { decodeState } from '../../../engine/machine/codec/decode_state'
import { encodeState } from '../../../engine/machine/codec/encode_state'
import { type Note, notesOfBatch, notesOfFills, notesOfPayment } from '../../../engine/machine/state/note'
import { Notes } from '../../../engine/machine/state/notes'
import type { State } from '../../../engine/machine/state/state'
import { RowQueue } from '../../../engine/memory/row_queue'
import { FIXED_HASH_SEED, seeded } from '../../kit/venue/machine_world'
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

test('notes are held by what refers to them and by nothing else, and know whether their leaf is final, also after a snapshot', () => {
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
