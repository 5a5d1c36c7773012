/** An id table agrees with a plain map under every hash seed, the weakest included. */
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { type HashSeed, IdTable } from '../../../engine/memory/id_table'
import { RowMemory } from '../../../engine/memory/rows'
import { copyBytes } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'

const NAMES = 400
const word = fc.integer({ min: 0, max: 0xffff_ffff })
const seeds = fc.oneof(fc.tuple(word, word), fc.constant<[number, number]>([0, 0]))

function idOf(name: number): Uint8Array {
  return sha256(new Uint8Array(new Uint32Array([name]).buffer)).slice(0, 16)
}

/** Adds each name that is missing and removes each that is there; returns whether table and map agree afterwards. */
function agrees(seed: HashSeed, names: readonly number[]): boolean {
  const rows = new RowMemory(16)
  const table = new IdTable(rows, seed)
  const model = new Map<number, number>()
  for (const [at, name] of names.entries()) {
    const known = model.get(name)
    if (known !== undefined) {
      table.remove(known)
      model.delete(name)
      continue
    }
    const handle = at + 1
    rows.reach(handle)
    copyBytes(idOf(name), 0, rows.bytesOf(handle), rows.placeOf(handle), 16)
    table.add(handle)
    model.set(name, handle)
  }
  for (let name = 0; name < NAMES; name++) if (table.find(idOf(name)) !== model.get(name)) return false
  return true
}

test('what an id table finds does not depend on its seed', () => {
  const names = fc.array(fc.nat(NAMES - 1), { minLength: 1, maxLength: 2_000 })
  fc.assert(
    fc.property(seeds, names, (seed, list) => agrees(seed, list)),
    { numRuns: 40 },
  )
})

test('an id is in a table once', () => {
  const rows = new RowMemory(16)
  rows.reach(2)
  const table = new IdTable(rows, [1, 2])
  table.add(1)
  expect(() => table.add(2)).toThrow('an id is in the table already')
  table.remove(1)
  expect(() => table.remove(1)).toThrow('an id is not in the table')
})

/** Differences by which a multiplicative hash of the four words collides under every seed. */
const DIFFERENCES = [
  [0x8001_0002, 0x8004_0000, 0, 0],
  [0x8000_0000, 0x8000_0000, 0, 0],
  [0, 0x8001_0002, 0x8004_0000, 0],
  [0, 0, 0x8001_0002, 0x8004_0000],
] as const

test('ids that differ by a chosen pattern do not share a hash', () => {
  const table = new IdTable(new RowMemory(16), [0x1234_5678, 0x9abc_def1])
  // The hash decides only how fast a lookup is, so it is no part of the table's face.
  const hash = (words: ArrayLike<number>) => table['hash'](new Uint8Array(Uint32Array.from(words).buffer), 0)
  for (const difference of DIFFERENCES) {
    let equal = 0
    for (let name = 0; name < 10_000; name++) {
      const words = new Uint32Array(idOf(name).buffer)
      if (hash(words) === hash(words.map((one, at) => one ^ difference[at]!))) equal++
    }
    expect(equal).toBeLessThan(3)
  }
})

test('every bit of an id and of the seed changes about half of the hash', () => {
  const bits = (value: number) => value.toString(2).replaceAll('0', '').length
  const hashed = (seed: HashSeed, id: Uint8Array) => new IdTable(new RowMemory(16), seed)['hash'](id, 0)
  let changed = 0
  let flips = 0
  for (let name = 0; name < 20; name++) {
    const id = idOf(name)
    const seed: HashSeed = [name * 0x9e37_79b1, 7]
    for (let bit = 0; bit < 192; bit++) {
      const other = id.slice()
      const mask = 1 << (bit % 32)
      if (bit < 128) other[bit >> 3]! ^= 1 << (bit & 7)
      const other_seed: HashSeed =
        bit < 128 ? seed : bit < 160 ? [seed[0] ^ mask, seed[1]] : [seed[0], seed[1] ^ mask]
      changed += bits((hashed(seed, id) ^ hashed(other_seed, other)) >>> 0)
      flips++
    }
  }
  expect(changed / flips).toBeGreaterThan(15.5)
  expect(changed / flips).toBeLessThan(16.5)
})
