/** A batch is explained by exactly the commands that spent its notes, however they are mixed. */
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { Spending } from '../../client/wallet/recover'

/** Inputs of each command in one batch; 0 is a fill or withdrawal, which spends one note. */
const commands = fc.array(fc.integer({ min: 0, max: 4 }), { minLength: 1, maxLength: 14 })
const MINTS = ['a', 'b']

type Told = (spending: Spending) => void
/** Every amount is another power of two, so no other notes sum to a reshape. */
function told(inputs: readonly number[], batch: number): { notes: Told[]; made: Told[] } {
  let at = 0
  const notes: Told[] = []
  const made = inputs.map((count, command): Told => {
    const mint = MINTS[command % 2]!
    const amounts = Array.from({ length: Math.max(1, count) }, () => 1n << BigInt(at++))
    for (const amount of amounts) notes.push((spending) => spending.note(batch, { mint, amount }))
    if (count === 0) return (spending) => spending.single(batch)
    const sum = amounts.reduce((total, amount) => total + amount, 0n)
    return (spending) => spending.reshape(batch, mint, sum)
  })
  return { notes, made }
}
function unexplained(all: readonly Told[]): readonly number[] {
  const spending = new Spending()
  for (const tell of all) tell(spending)
  return spending.unexplained
}

test('all commands explain all notes in any order, and none can be missing', () => {
  fc.assert(
    fc.property(commands, commands, fc.nat(), fc.boolean(), (one, other, gone, turned) => {
      const [first, second] = [told(one, 1), told(other, 2)]
      const all = [...first.notes, ...second.notes, ...second.made, ...first.made]
      expect(unexplained(turned ? all.toReversed() : all)).toEqual([])
      const lost = first.made[gone % first.made.length]!
      expect(unexplained(all.filter((tell) => tell !== lost))).toEqual([1])
      const unknown = first.notes[gone % first.notes.length]!
      expect(unexplained(all.filter((tell) => tell !== unknown))).toEqual([1])
    }),
    { numRuns: 300 },
  )
})

test('equal amounts cost no search', () => {
  const spending = new Spending()
  for (let at = 0; at < 53; at++) spending.note(1, { mint: 'a', amount: 1_000n })
  for (let at = 0; at < 13; at++) spending.reshape(1, 'a', 4_000n)
  // One note is left for a command that is not known.
  expect(spending.unexplained).toEqual([1])
  expect(spending.lacksCommand).toBe(true)
  spending.single(1)
  expect(spending.unexplained).toEqual([])
})
