/** Notes live exactly while something refers to them, and no reference ever sees another note. Failures print their seed. */
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { decodeState } from '../../engine/state/decode_state'
import { encodeState } from '../../engine/state/encode_state'
import type { Note } from '../../engine/state/note'
import { notesOfBatch, notesOfFills, notesOfPayment } from '../../engine/state/note_holders'
import { Notes } from '../../engine/state/notes'
import type { State } from '../../engine/state/state'
import { played } from './played'
import { steps } from './random_commands'
import { seeded } from './world'

/** How many hold each note, counted from the holders. */
function holders(state: State): Map<number, number> {
  const { settlement } = state
  const held = [...state.orders.values()].flatMap((order) => [order.collateral, ...notesOfFills(order.fills)])
  for (const batch of settlement.batches.values()) held.push(...notesOfBatch(batch))
  for (const payment of settlement.payments.values()) held.push(...notesOfPayment(payment))
  for (const { note } of settlement.exits.values()) if (note !== undefined) held.push(note)
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
}

test('notes are held by what refers to them and by nothing else, also after a snapshot', () => {
  fc.assert(
    fc.property(steps, (stream) => {
      const world = played(stream, ({ state }, at) => {
        if (at % 8 === 0) checkHolds(state)
      })
      checkHolds(world.state)
      checkHolds(decodeState(encodeState(world.state)))
    }),
    { numRuns: 30 },
  )
})

const facts = (serial: number) => ({
  owner: `owner ${serial % 3}`,
  mint: serial % 5,
  amount: BigInt(serial) * 10n ** 15n,
  status: 'free' as const,
  commitment: seeded(`commitment ${serial}`),
  blinding: seeded(`blinding ${serial}`),
  ...(serial % 2 === 0 ? {} : { nullifier: seeded(`nullifier ${serial}`) }),
  ...(serial % 3 === 0 ? {} : { leaf_index: serial }),
})

type Modelled = { note: Note; serial: number; spent: boolean; holds: number; known: boolean }

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
  }
}

const moves = fc.array(
  fc.record({
    op: fc.constantFrom('create', 'create', 'hold', 'drop', 'forget', 'spend'),
    pick: fc.nat(1_000),
  }),
  { minLength: 20, maxLength: 400 },
)

test('the memory of notes agrees with a map of objects, and a reference to a note that is gone says so', () => {
  fc.assert(
    fc.property(moves, (stream) => {
      const notes = new Notes({ keys: new Map(), key_list: [] })
      const model: Modelled[] = []
      stream.forEach(({ op, pick }, serial) => {
        if (op === 'create') {
          const note = notes.create(facts(serial))
          notes.register(note)
          model.push({ note, serial, spent: false, holds: 0, known: true })
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
      for (const { note, serial, spent, holds, known } of model) {
        const { status: _, ...expected } = facts(serial)
        if (!known && holds === 0) continue
        expect(notes.find(expected.commitment)?.is(note) ?? false).toBe(known)
        const { owner, mint, amount, commitment_bytes: commitment, blinding, leaf_index } = note
        const nullifier = note.nullifier_bytes
        const found = { owner, mint, amount, commitment, blinding, nullifier, leaf_index }
        expect(found).toEqual({ nullifier: undefined, leaf_index: undefined, ...expected })
        expect(note.spent_in).toBe(0)
        expect(note.status).toBe(spent ? 'spent' : 'free')
      }
    }),
    { numRuns: 60 },
  )
})
