/** The cache of the trees' nodes comes back as it was written, or not at all. */
import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readTreeCache, writeTreeCache } from '../../../engine/hashing/tree_cache'
import { emptyTrees } from '../../../engine/hashing/trees'
import { fieldToBytes } from '../../../protocol/field'
import { spentLogLeaf } from '../../../protocol/notes/spent_log'

const dir = mkdtempSync(join(tmpdir(), 'tacit-tree-cache-'))
const file = join(dir, 'trees.cache')
const key = new Uint8Array(32).fill(7)
afterAll(() => rmSync(dir, { recursive: true }))

test('trees come back whole, and a file that differs in any byte is the same as none', () => {
  const trees = emptyTrees()
  trees.notes.append(Array.from({ length: 5 }, (_, at) => fieldToBytes(BigInt(at + 1))))
  trees.spent.append([1, 2, 3].map((batch) => spentLogLeaf(batch, [])))
  writeTreeCache(dir, key, trees)
  const read = readTreeCache(dir, key)!
  expect(read.notes.root()).toEqual(trees.notes.root())
  expect(read.spent.root()).toEqual(trees.spent.root())
  for (const tree of [read, trees]) {
    tree.notes.append([fieldToBytes(6n)])
    tree.spent.append([spentLogLeaf(4, [])])
  }
  expect(read.notes.root()).toEqual(trees.notes.root())
  expect(read.spent.root()).toEqual(trees.spent.root())
  expect(readTreeCache(dir, new Uint8Array(32))).toBeUndefined()
  const sound = new Uint8Array(readFileSync(file))
  for (let at = 0; at < sound.length; at++) {
    const changed = sound.slice()
    changed[at]! ^= 0x80
    writeFileSync(file, changed)
    expect(readTreeCache(dir, key)).toBeUndefined()
  }
  for (const bytes of [
    new Uint8Array(0),
    sound.slice(0, 20),
    sound.slice(0, -1),
    new Uint8Array([...sound, 0]),
  ]) {
    writeFileSync(file, bytes)
    expect(readTreeCache(dir, key)).toBeUndefined()
  }
})
