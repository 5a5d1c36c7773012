/** The trees come back from their files as they were saved, and are empty where a file is not what was written. */
import { afterAll, expect, test } from 'bun:test'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { emptyTrees, restoreSpent, TreeFiles } from '../../../engine/hashing/tree_files'
import { disk } from '../../../engine/journal/disk'
import { LIMITS } from '../../../engine/limits'
import { u64Le, utf8 } from '../../../protocol/bytes'
import { fieldToBytes } from '../../../protocol/field'
import { sha256 } from '../../../protocol/sha256'

const dir = mkdtempSync(join(tmpdir(), 'tacit-tree-files-'))
const key = new Uint8Array(32).fill(7)
afterAll(() => rmSync(dir, { recursive: true }))

const full_dir = join(dir, 'full')
function freshFiles(): TreeFiles {
  mkdirSync(full_dir)
  return new TreeFiles(full_dir, key)
}

const leavesOf = (first: number, count: number) =>
  Array.from({ length: count }, (_, at) => fieldToBytes(BigInt(first + at + 1)))
const batchesOf = (first: number, count: number, name = 'nullifier') =>
  Array.from({ length: count }, (_, at) => ({
    batch_id: first + at,
    nullifiers: [sha256(utf8(name), u64Le(first + at))],
  }))

function expectSame(files: TreeFiles, model: ReturnType<typeof emptyTrees>): void {
  for (const tree of ['notes', 'spent'] as const) {
    const [found, expected] = [files.trees[tree], model[tree]]
    expect(found.leaf_count).toBe(expected.leaf_count)
    expect(found.root()).toEqual(expected.root())
    for (const at of [0, 1_023, 1_024, 2_047, expected.leaf_count - 1])
      if (at >= 0 && at < expected.leaf_count) expect(found.siblings(at)).toEqual(expected.siblings(at))
  }
}

test('trees of several parts come back, also behind a save that a crash made old', () => {
  const model = emptyTrees()
  let files = new TreeFiles(dir, key)
  const add = (leaves: number, batches: number) => {
    for (const trees of [model, files.trees]) {
      trees.notes.append(leavesOf(trees.notes.leaf_count, leaves))
      restoreSpent(trees, batchesOf(trees.spent.leaf_count + 1, batches))
    }
    expectSame(files, model)
  }
  add(1_024, 1_023)
  files.save()
  add(3_000, 3_000)
  // The process ends without another save: the next start is fed what it lacks.
  files = new TreeFiles(dir, key)
  expect(files.trees.notes.leaf_count).toBe(1_024)
  files.trees.notes.append(leavesOf(1_024, 3_000))
  restoreSpent(files.trees, batchesOf(1_024, 3_000))
  expectSame(files, model)
  files.close()
  files = new TreeFiles(dir, key)
  expectSame(files, model)
  // Batches that had not landed change, back into a part that was full.
  for (const trees of [model, files.trees]) restoreSpent(trees, batchesOf(3_000, 1_100, 'another'))
  expectSame(files, model)
  files.close()
  expectSame(new TreeFiles(dir, key), model)
})

test('a crash behind batches that changed back into a part that was full leaves no node of the old ones', () => {
  const fresh = join(dir, 'changed')
  mkdirSync(fresh)
  const first = new TreeFiles(fresh, key)
  restoreSpent(first.trees, batchesOf(1, 2_100))
  first.save()
  const model = emptyTrees()
  const landed = 1_000
  restoreSpent(model, [...batchesOf(1, landed), ...batchesOf(landed + 1, 1_100, 'another')])
  restoreSpent(first.trees, batchesOf(landed + 1, 1_100, 'another'))
  // No save: the process ends here. A start feeds the batches that have not landed or are missing in the files.
  const files = new TreeFiles(fresh, key)
  const from = 1 + Math.min(landed, files.trees.spent.leaf_count)
  const all = [...batchesOf(1, landed), ...batchesOf(landed + 1, 1_100, 'another')]
  restoreSpent(files.trees, all.slice(from - 1))
  expectSame(files, model)
})

test('a changed edge, a cut or missing level and another key give empty trees', () => {
  const edge = join(dir, 'trees.edge')
  const sound = readFileSync(edge)
  const empty = () => {
    const { notes, spent } = new TreeFiles(dir, key).trees
    expect([notes.leaf_count, spent.leaf_count]).toEqual([0, 0])
  }
  const other = new TreeFiles(dir, new Uint8Array(32)).trees
  expect(other.notes.leaf_count).toBe(0)
  for (const at of [0, 40, 100, sound.length - 1]) {
    const changed = new Uint8Array(sound)
    changed[at]! ^= 1
    writeFileSync(edge, changed)
    empty()
  }
  writeFileSync(edge, sound.subarray(0, -1))
  empty()
  writeFileSync(edge, sound)
  expect(new TreeFiles(dir, key).trees.notes.leaf_count).toBe(4_024)
  truncateSync(join(dir, 'notes.0.level'), 32_768)
  empty()
  rmSync(join(dir, 'notes.0.level'))
  empty()
})

test('a part that is not what was written is refused when it is read, and the next start is empty', () => {
  const fresh = join(dir, 'parts')
  mkdirSync(fresh)
  const files = new TreeFiles(fresh, key)
  files.trees.notes.append(leavesOf(0, 3_000))
  files.close()
  const level = join(fresh, 'notes.0.level')
  const sound = readFileSync(level)
  const swapped = Buffer.concat([sound.subarray(32_800, 65_600), sound.subarray(0, 32_800)])
  for (const bytes of [swapped, Buffer.alloc(sound.length)]) {
    writeFileSync(level, bytes)
    const opened = new TreeFiles(fresh, key)
    expect(opened.trees.notes.leaf(2_999)).toEqual(fieldToBytes(3_000n))
    expect(() => opened.trees.notes.leaf(5)).toThrow('the next start computes it again')
    opened.close()
    expect(new TreeFiles(fresh, key).trees.notes.leaf_count).toBe(0)
    const again = new TreeFiles(fresh, key)
    again.trees.notes.append(leavesOf(0, 3_000))
    again.close()
  }
})

test('batches that change back into the first part keep the nodes before them', () => {
  const folder = join(dir, 'first')
  mkdirSync(folder)
  const [model, files] = [emptyTrees(), new TreeFiles(folder, key)]
  for (const trees of [model, files.trees]) {
    restoreSpent(trees, batchesOf(1, 1_100))
    restoreSpent(trees, batchesOf(500, 3, 'another'))
  }
  expectSame(files, model)
  files.close()
  expectSame(new TreeFiles(folder, key), model)
})

test('parts that a full disk does not take are read from memory and written later, and the edge waits for them', () => {
  const [model, files] = [emptyTrees(), freshFiles()]
  const add = (leaves: number) => {
    for (const { notes } of [model, files.trees]) notes.append(leavesOf(notes.leaf_count, leaves))
  }
  add(1_000)
  files.save()
  const { write } = disk
  let room = 40_000
  disk.write = (fd, bytes, from, length, at) => {
    if (room === 0) throw Object.assign(new Error('ENOSPC'), { code: 'ENOSPC' })
    const taken = Math.min(room, length)
    room -= taken
    return write(fd, bytes, from, taken, at)
  }
  try {
    for (const leaves of [1_500, 1_500, 1_500]) {
      add(leaves)
      expectSame(files, model)
      files.save()
    }
  } finally {
    disk.write = write
  }
  const lagging = new TreeFiles(full_dir, key)
  expect(lagging.trees.notes.leaf_count).toBe(1_000)
  add(10)
  files.save()
  const whole = new TreeFiles(full_dir, key)
  expectSame(whole, model)
})

test('no more parts of a level than the bound stay in memory', () => {
  const fresh = join(dir, 'bounded')
  mkdirSync(fresh)
  const { tree_parts_cached_max: bound } = LIMITS
  const files = new TreeFiles(fresh, key)
  restoreSpent(files.trees, batchesOf(1, (bound + 2) * 1_024))
  const { spent } = files.trees
  for (let part = 0; part <= bound; part++) spent.leaf(part * 1_024)
  const level = join(fresh, 'spent.0.level')
  writeFileSync(level, new Uint8Array(statSync(level).size))
  for (let part = 1; part <= bound + 1; part++) spent.leaf(part * 1_024)
  expect(() => spent.leaf(0)).toThrow('the next start computes it again')
})
