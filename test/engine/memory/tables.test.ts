/** Tables find keys, free dropped rows and are bounded; large bytes are released at once. */

import { expect, jest, spyOn, test } from 'bun:test'
import fc from 'fast-check'
import { checkSegment, readSegments, recover } from '../../../engine/journal/read_segments'
import * as segment_files from '../../../engine/journal/segment_files'
import { openSnapshotStore } from '../../../engine/journal/snapshot_store'
import * as walk_segment from '../../../engine/journal/walk_segment'
import { type HashSeed, IdTable } from '../../../engine/memory/id_table'
import { collectWhenQuiet, releaseBytes } from '../../../engine/memory/idle_gc'
import { RowQueue } from '../../../engine/memory/row_queue'
import { RowMemory } from '../../../engine/memory/rows'
import { LruTexts, SharedTexts } from '../../../engine/memory/texts'
import { durableRecords } from '../../../engine/snapshots/make_snapshot'
import { ByteReader, ByteWriter } from '../../../protocol/byte_stream'
import { concatBytes, copyBytes, utf8 } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import { FIXED_HASH_SEED } from '../../kit/venue/machine_world'
import { KEY, records, withFolder, write } from '../journal/folder'

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

test("an id table's results do not depend on its seed", () => {
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

test('a table that grows reads few ids at a time and finds each of them meanwhile', () => {
  const rows = new RowMemory(16)
  let looked = 0
  const bytesOf = (handle: number) => {
    looked++
    return rows.bytesOf(handle)
  }
  const table = new IdTable({ bytesOf, placeOf: (handle) => rows.placeOf(handle) }, [1, 2])
  const ids = Array.from({ length: 20_001 }, (_, name) => idOf(name))
  const isThere = (handle: number, newest: number) => handle % 3 !== 2 || handle === newest
  const findsAll = (newest: number) => {
    for (let handle = 1; handle <= newest; handle++)
      if ((table.find(ids[handle]!) === handle) !== isThere(handle, newest)) return false
    return true
  }
  for (let handle = 1; handle < ids.length; handle++) {
    rows.reach(handle)
    copyBytes(ids[handle]!, 0, rows.bytesOf(handle), rows.placeOf(handle), 16)
    looked = 0
    table.add(handle)
    expect(looked).toBeLessThan(100)
    if (handle % 3 === 0) table.remove(handle - 1)
    if (handle < 1_000) expect(findsAll(handle)).toBe(true)
  }
  expect(findsAll(20_000)).toBe(true)
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

const keyOf = (name: number): Uint8Array => sha256(utf8(`key ${name}`))

test('keys behind a truncation are gone and can be appended again in another order', () => {
  const queue = new RowQueue(32, 32, FIXED_HASH_SEED)
  for (let name = 0; name < 3_000; name++) queue.append(keyOf(name))
  queue.truncate(1_000)
  expect(queue.size).toBe(1_000)
  for (let name = 0; name < 3_000; name++) expect(queue.has(keyOf(name))).toBe(name < 1_000)
  expect(() => queue.at(1_000)).toThrow('no such row')
  for (let name = 2_999; name >= 1_000; name--) queue.append(keyOf(name))
  for (let name = 0; name < 3_000; name++)
    expect(queue.indexOf(keyOf(name))).toBe(name < 1_000 ? name : 3_999 - name)
})

test.each([2 ** 31, 2 ** 32, 2 ** 40])(
  'rows are found, dropped and counted on where their numbers pass %d',
  (passed) => {
    const begun = new ByteWriter()
    begun.uint(passed - 3_000)
    begun.uint(0)
    const queue = new RowQueue(16, 16, FIXED_HASH_SEED)
    queue.decode(new ByteReader(begun.done()))
    const idAt = (number: number) => idOf(number - passed + 3_000)
    const kept = (first: number) => {
      for (let number = first; number < queue.size; number++)
        if (queue.indexOf(idAt(number)) !== number) return false
      return queue.first === first && !queue.has(idAt(first - 1))
    }
    while (queue.size < passed + 3_000) expect(queue.append(idAt(queue.size))).toBe(queue.size - 1)
    for (const first of [passed - 2_900, passed - 1, passed + 1, passed + 2_900]) {
      queue.dropBefore(first)
      expect(kept(first)).toBe(true)
    }
  },
)

test('a drop touches the fewer of the rows that go and those that stay', () => {
  for (const [dropped, touched] of [
    [9_900, [0, 100]],
    [100, [100, 0]],
  ] as const) {
    const queue = new RowQueue(32, 32, FIXED_HASH_SEED)
    for (let name = 0; name < 10_000; name++) queue.append(keyOf(name))
    const calls = [spyOn(IdTable.prototype, 'drop'), spyOn(IdTable.prototype, 'put')]
    try {
      queue.dropBefore(dropped)
      expect(calls.map(({ mock }) => mock.calls.length)).toEqual([...touched])
    } finally {
      for (const call of calls) call.mockRestore()
    }
    for (let name = 0; name < 10_000; name++)
      expect(queue.indexOf(keyOf(name))).toBe(name < dropped ? undefined : name)
  }
})

test('dropped rows are gone, the newest place of a key is found, and numbers go on', () => {
  const queue = new RowQueue(32, 36, FIXED_HASH_SEED)
  const rowOf = (name: number) => concatBytes(keyOf(name), new Uint8Array(4).fill(name))
  for (let name = 0; name < 10_000; name++) queue.append(rowOf(name))
  const repeated = queue.append(rowOf(7))
  expect(queue.indexOf(keyOf(7))).toBe(repeated)
  // Few rows are dropped one by one, many by copying the rest.
  queue.dropBefore(10)
  expect(queue.indexOf(keyOf(7))).toBe(repeated)
  queue.dropBefore(9_000)
  expect(queue).toMatchObject({ first: 9_000, size: 10_001 })
  expect(queue.indexOf(keyOf(7))).toBe(repeated)
  expect(queue.at(repeated)).toEqual(rowOf(7))
  for (let name = 0; name < 10_000; name++)
    expect(queue.indexOf(keyOf(name))).toBe(name === 7 ? repeated : name < 9_000 ? undefined : name)
  expect(() => queue.at(8_999)).toThrow('no such row')
  expect(() => queue.truncate(8_999)).toThrow('no such row')
  queue.dropBefore(99_999)
  expect(queue).toMatchObject({ first: 10_001, size: 10_001 })
  expect(queue.append(rowOf(3))).toBe(10_001)
  expect(queue.indexOf(keyOf(3))).toBe(10_001)
})

const CHUNK_ROWS = 1024

/** Chunks that are there. */
function chunks(rows: RowMemory): number {
  let count = 0
  while (rows.chunkOf(count * CHUNK_ROWS) !== undefined) count++
  return count
}

test('memory that is reached at once is no more than is asked for', () => {
  const rows = new RowMemory(8)
  rows.reach(40 * CHUNK_ROWS - 1)
  expect(chunks(rows)).toBe(40)
  expect(rows.bytesOf(1).length).toBe(8 * CHUNK_ROWS)
})

test('memory that grows row by row grows by a sixteenth at a time, and by one chunk while it is small', () => {
  const rows = new RowMemory(8)
  const sizes = new Set<number>()
  for (let handle = 0; handle < 40 * CHUNK_ROWS; handle += CHUNK_ROWS) {
    rows.reach(handle)
    sizes.add(chunks(rows))
  }
  expect([...sizes].slice(0, 16)).toEqual(Array.from({ length: 16 }, (_, at) => at + 1))
  expect([...sizes].slice(16, 19)).toEqual([18, 20, 22])
  rows.bytesOf(1)[5] = 9
  rows.reach(90 * CHUNK_ROWS)
  expect(rows.bytesOf(1)[5]).toBe(9)
})

test('never more characters are kept than allowed, and the last used are among them', () => {
  const step = fc.record({ name: fc.constantFrom('a', 'b', 'c', 'd', 'e'), characters: fc.nat(60) })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (script) => {
      const kept = new LruTexts<number>(100)
      const sizes = new Map<string, number>()
      for (const [at, { name, characters }] of script.entries()) {
        kept.set(name, at, characters)
        sizes.set(name, characters)
        expect(kept.get(name)).toBe(at)
        let total = 0
        for (const [other, size] of sizes) if (kept.get(other) !== undefined) total += size
        expect(total).toBeLessThanOrEqual(100)
      }
    }),
    { numRuns: 500, verbose: true },
  )
  const kept = new LruTexts<string>(10)
  kept.set('old', 'x', 5)
  kept.set('new', 'y', 5)
  kept.get('old')
  kept.set('newest', 'z', 5)
  expect([kept.get('old'), kept.get('new'), kept.get('newest')]).toEqual(['x', undefined, 'z'])
  kept.set('huge', 'h', 11)
  expect(kept.get('huge')).toBeUndefined()
  expect(kept.get('newest')).toBe('z')
})

test('a shared text stays while a row refers to it, and its number is used again', () => {
  const texts = new SharedTexts()
  const a = texts.take('a')
  expect([texts.take('a'), texts.take('b'), texts.size]).toEqual([a, a + 1, 2])
  texts.drop(a)
  expect([texts.at(a), texts.size]).toEqual(['a', 2])
  texts.drop(a)
  expect([texts.size, texts.take('c'), texts.at(a)]).toEqual([1, a, 'c'])
})

/** Runs `body` in a folder of several segments; returns the bytes left of each loaded segment. */
async function leftLoaded(body: (dir: string, seq_last: number) => void): Promise<number[]> {
  let left: number[] = []
  await withFolder(async (dir) => {
    const groups = Array.from({ length: 12 }, (_, mark) => records(mark, 10, 400))
    await write(dir, groups)
    const loads = spyOn(segment_files, 'loadSegment')
    try {
      body(dir, 120)
      left = loads.mock.results.map(({ value }) => (value as walk_segment.LoadedSegment).bytes.length)
    } finally {
      loads.mockRestore()
    }
  })
  return left
}

test('bytes that are let go have no length, nor has a view of them', () => {
  const bytes = new Uint8Array(1_000)
  const view = bytes.subarray(10, 20)
  releaseBytes(bytes)
  expect([bytes.length, view.length]).toEqual([0, 0])
})

test('who recovers keeps no segment', async () => {
  expect(await leftLoaded((dir) => recover(dir, KEY))).toEqual([0])
})

test('a check of an old segment keeps neither the file nor its plaintext', async () => {
  const frames = spyOn(walk_segment, 'readFrame')
  try {
    expect(await leftLoaded((dir) => checkSegment({ dir, key: KEY }, 1))).toEqual([0])
    const left = frames.mock.results.map(({ value }) => (value as { plain: Uint8Array }).plain.length)
    expect(left.length).toBeGreaterThan(2)
    expect(new Set(left)).toEqual(new Set([0]))
  } finally {
    frames.mockRestore()
  }
})

test('who reads to the end keeps no segment, nor does who stops early', async () => {
  const read = (dir: string, chunks: number) => {
    const { segments, end } = recover(dir, KEY)
    const reader = readSegments({ dir, key: KEY }, segments, end!, 1, [])
    for (let at = 0; at < chunks && !reader.next().last; at++);
    reader.stop()
  }
  const whole = await leftLoaded((dir) => read(dir, Number.POSITIVE_INFINITY))
  expect(whole.length).toBeGreaterThan(2)
  expect(new Set(whole)).toEqual(new Set([0]))
  expect(new Set(await leftLoaded((dir) => read(dir, 1)))).toEqual(new Set([0]))
})

test('who takes the first records only keeps no segment', async () => {
  const left = await leftLoaded((dir, seq_last) => {
    for (const chunk of durableRecords({ dir, key: KEY }, 1, [], seq_last)) {
      expect(chunk.length).toBeGreaterThan(0)
      break
    }
  })
  expect(left.length).toBeGreaterThan(0)
  expect(new Set(left)).toEqual(new Set([0]))
})

test('a block of a snapshot is let go when the next is asked for', async () => {
  await withFolder(async (dir) => {
    const store = openSnapshotStore({ dir, key: KEY })
    const point = { seq: 1, head: new Uint8Array(32) }
    const hash = await store.writeSnapshot(point, () => [new Uint8Array(3 * 1024 * 1024)], undefined)
    const { snapshot } = await store.newestValid(async () => hash)
    const blocks = [...snapshot!.blocks()]
    expect(blocks.map(({ length }) => length)).toEqual([0, 0, 0])
  })
})

test('a thread collects once after its work, and not while it works', () => {
  jest.useFakeTimers()
  try {
    let collected = 0
    const worked = collectWhenQuiet(() => collected++, 1_000)
    jest.advanceTimersByTime(10_000)
    expect(collected).toBe(0)
    for (let second = 0; second < 5; second++) {
      worked()
      jest.advanceTimersByTime(900)
    }
    expect(collected).toBe(0)
    jest.advanceTimersByTime(10_000)
    expect(collected).toBe(1)
    worked()
    jest.advanceTimersByTime(10_000)
    expect(collected).toBe(2)
  } finally {
    jest.useRealTimers()
  }
})

test('a thread that had much to do and goes on with a little collects, and not for the little alone', () => {
  jest.useFakeTimers()
  try {
    let collected = 0
    const worked = collectWhenQuiet(() => collected++, 1_000)
    const second = (pieces: number) => {
      for (let piece = 0; piece < pieces; piece++) worked()
      jest.advanceTimersByTime(1_000)
    }
    for (let at = 0; at < 10; at++) second(1_000)
    expect(collected).toBe(0)
    second(3)
    expect(collected).toBe(1)
    for (let at = 0; at < 80; at++) second(3)
    expect(collected).toBe(1)
    for (let at = 0; at < 10; at++) second(3)
    expect(collected).toBe(2)
  } finally {
    jest.useRealTimers()
  }
})
