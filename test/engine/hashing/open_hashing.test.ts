/** The hashing worker: batches equal the protocol's formulas, survive a lost answer, and a cache never lies. */

import { afterEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openHashing } from '../../../engine/hashing/open_hashing'
import type { HashJob, HashPort } from '../../../engine/ports'
import { compareBytes } from '../../../protocol/bytes'
import { fieldToBytes } from '../../../protocol/field'
import { MerkleTree, SpentLog, spentLogLeaf } from '../../../protocol/notes/merkle_tree'
import { decodeMemo, nullifierOf, openingCommitment, outputBlinding } from '../../../protocol/notes/notes'
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

  test('a part that is not what was written ends the process, and the next start computes the trees again', async () => {
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
