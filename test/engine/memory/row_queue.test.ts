/** A truncated queue is as one that never had the later rows, and dropped rows free their keys and memory. */
import { expect, test } from 'bun:test'
import { RowQueue } from '../../../engine/memory/row_queue'
import { concatBytes, utf8 } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import { FIXED_HASH_SEED } from '../../kit/venue/machine_world'

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

test('a drop reads the fewer of the rows that go and those that stay', () => {
  for (const [dropped, most] of [
    [9_900, 400],
    [100, 400],
  ] as const) {
    const queue = new RowQueue(32, 32, FIXED_HASH_SEED)
    for (let name = 0; name < 10_000; name++) queue.append(keyOf(name))
    let looked = 0
    const { indexOf } = queue
    queue.indexOf = (key, from) => {
      looked++
      return indexOf.call(queue, key, from)
    }
    queue.dropBefore(dropped)
    expect(looked).toBeLessThan(most)
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
