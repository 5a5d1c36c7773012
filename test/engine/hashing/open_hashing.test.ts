/** The hashing worker: batches equal the protocol's formulas, and trees come back from their files as they were saved. */

import { afterAll, afterEach, describe, expect, test } from 'bun:test'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openHashing } from '../../../engine/hashing/open_hashing'
import { emptyTrees, restoreSpent, TreeFiles } from '../../../engine/hashing/tree_files'
import { disk } from '../../../engine/journal/disk'
import { LIMITS } from '../../../engine/limits'
import type { HashJob, HashPort } from '../../../engine/ports'
import { compareBytes, u64Le, utf8 } from '../../../protocol/bytes'
import { MerkleTree, SpentLog, spentLogLeaf } from '../../../protocol/notes/merkle_tree'
import { decodeMemo, nullifierOf, openingCommitment, outputBlinding } from '../../../protocol/notes/notes'
import { fieldToBytes } from '../../../protocol/notes/poseidon'
import { sha256 } from '../../../protocol/sha256'
import { rootFromPath, spentRootFromPath } from '../../kit/root_from_path'

const key = new Uint8Array(32).fill(1)
const dirs: string[] = []
const ports: HashPort[] = []
const ended: Error[] = []
function folder(): string {
  const dir = mkdtempSync(join(tmpdir(), 'tacit-hashing-'))
  dirs.push(dir)
  return dir
}
async function open(dir: string): Promise<HashPort> {
  const port = await openHashing({ dir, key, fatal: (error) => ended.push(error) })
  ports.push(port)
  return port
}
afterEach(async () => {
  ended.splice(0)
  for (const port of ports.splice(0)) await port.close().catch(() => {})
  for (const dir of dirs.splice(0)) rmSync(dir, { recursive: true })
})

/** The message a promise rejects with; awaiting `expect().rejects` holds the thread a worker's answer needs. */
const failure = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => 'nothing failed',
    (error: Error) => error.message,
  )
const fe = (value: number) => fieldToBytes(BigInt(value))
function spentBy(input: HashJob['inputs'][number]): Uint8Array {
  return input.nullifier === undefined ? nullifierOf(input.commitment, input.blinding) : input.nullifier
}
function job(batch_id: number): HashJob {
  const owner = new Uint8Array(32).fill(batch_id)
  const output = { anchor: fe(9), order_id: new Uint8Array(16).fill(3), nonce: 4n, generation: 1, owner }
  return {
    batch_id,
    inputs: [
      { commitment: fe(100 * batch_id), blinding: fe(7) },
      { commitment: fe(100 * batch_id + 1), blinding: fe(8) },
    ],
    outputs: [0, 1].map((index_role) => ({
      ...output,
      index_role,
      mint: new Uint8Array(32).fill(5),
      amount: 42n,
    })),
    refunds: [{ anchor: fe(10), nonce: 5n, generation: 1, index_role: 3, owner }],
  }
}

describe('hashing', () => {
  test('a batch gives the nullifiers, notes, memos and spent log of the protocol', async () => {
    const port = await open(folder())
    const asked = job(1)
    const result = await port.hashBatch(asked)
    const nullifiers = asked.inputs.map(spentBy)
    expect(result.nullifiers).toEqual(nullifiers)
    asked.outputs.forEach((output, at) => {
      const made = result.outputs[at]!
      expect(made.blinding).toEqual(outputBlinding(output))
      expect(made.commitment).toEqual(openingCommitment({ ...output, blinding: made.blinding }))
      expect(decodeMemo(made.memo, made.blinding)).toBe(42n)
    })
    const log = new SpentLog()
    log.append([spentLogLeaf(1, [...nullifiers].sort(compareBytes))])
    expect(port.spent()).toEqual({ batch_count: 1, root: log.root() })
  })

  test('the newest batch may be asked for again; a gap or a changed batch is refused', async () => {
    const port = await open(folder())
    const first = await port.hashBatch(job(1))
    expect(await port.hashBatch(job(1))).toEqual(first)
    expect(await failure(port.hashBatch(job(3)))).toContain('in order')
    expect(await failure(port.hashBatch({ ...job(2), batch_id: 1 }))).toContain('changed')
    expect(port.spent().batch_count).toBe(1)
  })

  test('batches that lost an exit replace those known from there on', async () => {
    const port = await open(folder())
    const batches: { batch_id: number; nullifiers: Uint8Array[] }[] = []
    for (const batch_id of [1, 2, 3]) {
      const { nullifiers } = await port.hashBatch(job(batch_id))
      batches.push({ batch_id, nullifiers: [...nullifiers].sort(compareBytes) })
    }
    const { root } = port.spent()
    await port.restoreSpent(batches)
    expect(port.spent()).toEqual({ batch_count: 3, root })
    batches[1]!.nullifiers.pop()
    await port.restoreSpent(batches.slice(1))
    const log = new SpentLog()
    log.append(batches.map(({ batch_id, nullifiers }) => spentLogLeaf(batch_id, nullifiers)))
    expect(port.spent()).toEqual({ batch_count: 3, root: log.root() })
  })

  test('the path of a batch proves it under the root after that batch and after every later one', async () => {
    const port = await open(folder())
    const roots: Uint8Array[] = []
    const leaves: Uint8Array[] = []
    for (const batch_id of [1, 2, 3, 4, 5]) {
      const { nullifiers } = await port.hashBatch(job(batch_id))
      leaves.push(spentLogLeaf(batch_id, [...nullifiers].sort(compareBytes)))
      roots.push(port.spent().root)
    }
    for (const [at, leaf] of leaves.entries()) {
      for (const [after, known] of roots.entries()) {
        if (after < at) continue
        const { siblings, root } = await port.spentPath(at + 1, after + 1)
        expect(root).toEqual(known)
        expect(spentRootFromPath(leaf, at, siblings)).toEqual(known)
      }
    }
    expect(await failure(port.spentPath(3, 2))).toContain('no such leaf')
    expect(await failure(port.spentPath(1, 6))).toContain('no such leaf')
  })

  test('leaves append without a gap, repeat when equal, and every inclusion proof holds', async () => {
    const port = await open(folder())
    const leaves = Array.from({ length: 9 }, (_, at) => fe(at + 1))
    await port.appendLeaves(0, leaves.slice(0, 5))
    const { root, leaf_count } = await port.appendLeaves(3, leaves.slice(3))
    const tree = new MerkleTree()
    tree.append(leaves)
    expect({ root, leaf_count }).toEqual({ root: tree.root(), leaf_count: 9 })
    expect(await failure(port.appendLeaves(10, [fe(1)]))).toContain('gap')
    expect(await failure(port.appendLeaves(8, [fe(1)]))).toContain('changed')
    for (const [index, leaf] of leaves.entries()) {
      const proof = await port.inclusion(index)
      expect(proof.leaf).toEqual(leaf)
      expect(rootFromPath(leaf, index, proof.siblings)).toEqual(root)
    }
    expect(await port.leaves(2, 3)).toEqual(leaves.slice(2, 5))
    expect(await port.leaves(8, 3)).toEqual(leaves.slice(8))
    expect(await port.leaves(9, 3)).toEqual([])
  })

  test('a reopened worker goes on from its files; damaged or foreign ones are the same as none', async () => {
    const dir = folder()
    const port = await open(dir)
    await port.appendLeaves(0, [fe(1), fe(2)])
    const first = await port.hashBatch(job(1))
    const { root } = port.spent()
    await port.close()
    ports.pop()

    const again = await open(dir)
    expect(again.root().leaf_count).toBe(2)
    expect(again.spent()).toEqual({ batch_count: 1, root })
    const second = await again.hashBatch(job(2))
    const both = again.spent()
    await again.close()
    ports.pop()

    const file = join(dir, 'trees.edge')
    const bytes = readFileSync(file)
    bytes[bytes.length - 1]! ^= 1
    writeFileSync(file, bytes)
    const rebuilt = await open(dir)
    expect(rebuilt.root().leaf_count).toBe(0)
    await rebuilt.restoreSpent(
      [first, second].map((r, at) => ({
        batch_id: at + 1,
        nullifiers: [...r.nullifiers].sort(compareBytes),
      })),
    )
    expect(rebuilt.spent()).toEqual(both)
    expect(await failure(rebuilt.restoreSpent([{ batch_id: 4, nullifiers: [] }]))).toContain('gap')
  })

  test('a changed part ends the process, and the next start computes the trees again', async () => {
    const dir = folder()
    const leaves = Array.from({ length: 3_000 }, (_, at) => fe(at + 1))
    const port = await open(dir)
    await port.appendLeaves(0, leaves)
    await port.close()
    ports.pop()
    const level = join(dir, 'notes.0.level')
    writeFileSync(level, readFileSync(level).fill(0))
    const again = await open(dir)
    expect(await failure(again.inclusion(2_999))).toBe('nothing failed')
    expect(ended).toEqual([])
    expect(await failure(again.inclusion(5))).toContain('the next start computes it again')
    expect(ended).toHaveLength(1)
    await again.close()
    ports.pop()
    const next = await open(dir)
    expect(next.root().leaf_count).toBe(0)
  })
})

const dir = mkdtempSync(join(tmpdir(), 'tacit-tree-files-'))
const treeKey = new Uint8Array(32).fill(7)
afterAll(() => rmSync(dir, { recursive: true }))

const full_dir = join(dir, 'full')
function freshFiles(): TreeFiles {
  mkdirSync(full_dir)
  return new TreeFiles(full_dir, treeKey)
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
  let files = new TreeFiles(dir, treeKey)
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
  // The process ends without another save: the next start is fed the missing leaves.
  files = new TreeFiles(dir, treeKey)
  expect(files.trees.notes.leaf_count).toBe(1_024)
  files.trees.notes.append(leavesOf(1_024, 3_000))
  restoreSpent(files.trees, batchesOf(1_024, 3_000))
  expectSame(files, model)
  files.close()
  files = new TreeFiles(dir, treeKey)
  expectSame(files, model)
  // Batches that had not landed change, back into a part that was full.
  for (const trees of [model, files.trees]) restoreSpent(trees, batchesOf(3_000, 1_100, 'another'))
  expectSame(files, model)
  files.close()
  expectSame(new TreeFiles(dir, treeKey), model)
})

test('a crash behind batches that changed back into a part that was full leaves no node of the old ones', () => {
  const fresh = join(dir, 'changed')
  mkdirSync(fresh)
  const first = new TreeFiles(fresh, treeKey)
  restoreSpent(first.trees, batchesOf(1, 2_100))
  first.save()
  const model = emptyTrees()
  const landed = 1_000
  restoreSpent(model, [...batchesOf(1, landed), ...batchesOf(landed + 1, 1_100, 'another')])
  restoreSpent(first.trees, batchesOf(landed + 1, 1_100, 'another'))
  // No save: the process ends here. A start feeds the batches that have not landed or are missing in the files.
  const files = new TreeFiles(fresh, treeKey)
  const from = 1 + Math.min(landed, files.trees.spent.leaf_count)
  const all = [...batchesOf(1, landed), ...batchesOf(landed + 1, 1_100, 'another')]
  restoreSpent(files.trees, all.slice(from - 1))
  expectSame(files, model)
})

test('a changed edge, a cut or missing level and another key give empty trees', () => {
  const edge = join(dir, 'trees.edge')
  const sound = readFileSync(edge)
  const empty = () => {
    const { notes, spent } = new TreeFiles(dir, treeKey).trees
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
  expect(new TreeFiles(dir, treeKey).trees.notes.leaf_count).toBe(4_024)
  truncateSync(join(dir, 'notes.0.level'), 32_768)
  empty()
  rmSync(join(dir, 'notes.0.level'))
  empty()
})

test('a changed part is refused when it is read, and the next start is empty', () => {
  const fresh = join(dir, 'parts')
  mkdirSync(fresh)
  const files = new TreeFiles(fresh, treeKey)
  files.trees.notes.append(leavesOf(0, 3_000))
  files.close()
  const level = join(fresh, 'notes.0.level')
  const sound = readFileSync(level)
  const swapped = Buffer.concat([sound.subarray(32_800, 65_600), sound.subarray(0, 32_800)])
  for (const bytes of [swapped, Buffer.alloc(sound.length)]) {
    writeFileSync(level, bytes)
    const opened = new TreeFiles(fresh, treeKey)
    expect(opened.trees.notes.leaf(2_999)).toEqual(fieldToBytes(3_000n))
    expect(() => opened.trees.notes.leaf(5)).toThrow('the next start computes it again')
    opened.close()
    expect(new TreeFiles(fresh, treeKey).trees.notes.leaf_count).toBe(0)
    const again = new TreeFiles(fresh, treeKey)
    again.trees.notes.append(leavesOf(0, 3_000))
    again.close()
  }
})

test('batches that change back into the first part keep the nodes before them', () => {
  const folder = join(dir, 'first')
  mkdirSync(folder)
  const [model, files] = [emptyTrees(), new TreeFiles(folder, treeKey)]
  for (const trees of [model, files.trees]) {
    restoreSpent(trees, batchesOf(1, 1_100))
    restoreSpent(trees, batchesOf(500, 3, 'another'))
  }
  expectSame(files, model)
  files.close()
  expectSame(new TreeFiles(folder, treeKey), model)
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
  const lagging = new TreeFiles(full_dir, treeKey)
  expect(lagging.trees.notes.leaf_count).toBe(1_000)
  add(10)
  files.save()
  const whole = new TreeFiles(full_dir, treeKey)
  expectSame(whole, model)
})

test('no more parts of a level than the bound stay in memory', () => {
  const fresh = join(dir, 'bounded')
  mkdirSync(fresh)
  const { tree_parts_cached_max: bound } = LIMITS
  const files = new TreeFiles(fresh, treeKey)
  restoreSpent(files.trees, batchesOf(1, (bound + 2) * 1_024))
  const { spent } = files.trees
  for (let part = 0; part <= bound; part++) spent.leaf(part * 1_024)
  const level = join(fresh, 'spent.0.level')
  writeFileSync(level, new Uint8Array(statSync(level).size))
  for (let part = 1; part <= bound + 1; part++) spent.leaf(part * 1_024)
  expect(() => spent.leaf(0)).toThrow('the next start computes it again')
})
