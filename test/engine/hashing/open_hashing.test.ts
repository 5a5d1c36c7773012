/** The hashing worker: batches equal the protocol's formulas, survive a lost answer, and a cache never lies. */

import { afterEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openHashing } from '../../../engine/hashing/open_hashing'
import type { HashJob, HashPort } from '../../../engine/ports'
import { compareBytes } from '../../../protocol/bytes'
import { fieldToBytes } from '../../../protocol/field'
import { MerkleTree, rootFromPath } from '../../../protocol/notes/merkle_tree'
import { decodeMemo, nullifierOf, openingCommitment, outputBlinding } from '../../../protocol/notes/notes'
import { SpentTree } from '../../../protocol/notes/spent_tree'

const key = new Uint8Array(32).fill(1)
const dirs: string[] = []
const ports: HashPort[] = []
function folder(): string {
  const dir = mkdtempSync(join(tmpdir(), 'tacit-hashing-'))
  dirs.push(dir)
  return dir
}
async function open(dir: string): Promise<HashPort> {
  const port = await openHashing({ dir, key })
  ports.push(port)
  return port
}
afterEach(async () => {
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
  test('a batch gives the nullifiers, notes, memos and spent root of the protocol', async () => {
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
    const tree = new SpentTree()
    tree.insert([...nullifiers].sort(compareBytes))
    expect(result.spent_root).toEqual(tree.root())
    expect(port.spent()).toEqual({ spent_count: 2, spent_root: tree.root(), last_batch_id: 1 })
  })

  test('the newest batch may be asked for again; a gap, a changed batch or a double spend is refused', async () => {
    const port = await open(folder())
    const first = await port.hashBatch(job(1))
    expect(await port.hashBatch(job(1))).toEqual(first)
    expect(await failure(port.hashBatch(job(3)))).toContain('in order')
    expect(await failure(port.hashBatch({ ...job(2), batch_id: 1 }))).toContain('changed')
    expect(await failure(port.hashBatch({ ...job(1), batch_id: 2 }))).toContain('already spent')
    expect(port.spent().last_batch_id).toBe(1)
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

  test('a reopened worker goes on from its cache; a damaged or foreign cache is the same as none', async () => {
    const dir = folder()
    const port = await open(dir)
    await port.appendLeaves(0, [fe(1), fe(2)])
    const first = await port.hashBatch(job(1))
    await port.close()
    ports.pop()

    const again = await open(dir)
    expect(again.root().leaf_count).toBe(2)
    expect(again.spent().spent_root).toEqual(first.spent_root)
    const second = await again.hashBatch(job(2))
    await again.close()
    ports.pop()

    const file = join(dir, readdirSync(dir).find((name) => name === 'trees.cache')!)
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
    expect(rebuilt.spent().spent_root).toEqual(second.spent_root)
  })
})
