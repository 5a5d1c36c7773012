/** Rows of memory are where they are asked for, and some are there ahead where there are many. */
import { expect, test } from 'bun:test'
import { RowMemory } from '../../../engine/memory/rows'

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
