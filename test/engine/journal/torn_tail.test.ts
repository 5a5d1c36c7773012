/** A torn last group is cut off at every byte it can be torn at. */
import { expect, test } from 'bun:test'
import { statSync } from 'node:fs'
import { SECTOR_BYTES } from '../../../engine/journal/segment_header'
import { all, load, open, readFolder, records, save, segmentFiles, withFolder, write } from './folder'

/** A journal of three groups: one sector, one sector, and five from `from` to `to`. */
async function threeGroups(dir: string) {
  await write(dir, [records(1, 2), records(2, 3), records(3, 4, 500)])
  const path = segmentFiles(dir)[0] as string
  const bytes = load(path)
  const from = 3 * SECTOR_BYTES
  const to = lastUsedSector(bytes) + SECTOR_BYTES
  return { path, bytes, from, to, before: readFolder(dir) }
}

function lastUsedSector(bytes: Uint8Array): number {
  let last = 0
  for (let at = 0; at < bytes.length; at += SECTOR_BYTES)
    if (bytes.subarray(at, at + SECTOR_BYTES).some((byte) => byte !== 0)) last = at
  return last
}

test('a file that ends at any byte of the last group recovers to the group before', async () => {
  await withFolder(async (dir) => {
    const { path, bytes, from, to, before } = await threeGroups(dir)
    expect(before.seq).toBe(9)
    expect(to - from).toBe(5 * SECTOR_BYTES)
    for (let length = from; length < to; length++) {
      save(path, bytes.subarray(0, length))
      const found = readFolder(dir)
      expect(found.seq).toBe(5)
      expect(found.records).toEqual(before.records.slice(0, 5))
    }
    save(path, bytes.subarray(0, to))
    expect(readFolder(dir)).toEqual(before)
  })
})

test('any set of sectors of the last group that never reached the disk recovers to the group before', async () => {
  await withFolder(async (dir) => {
    const { path, bytes, from, to, before } = await threeGroups(dir)
    const sectors = (to - from) / SECTOR_BYTES
    for (let missing = 1; missing < 2 ** sectors; missing++) {
      const torn = bytes.slice()
      for (let i = 0; i < sectors; i++) {
        const at = from + i * SECTOR_BYTES
        if ((missing & (1 << i)) !== 0) torn.fill(0, at, at + SECTOR_BYTES)
      }
      save(path, torn)
      expect(readFolder(dir).records).toEqual(before.records.slice(0, 5))
    }
  })
})

test('every written sector has a byte other than zero, for any content', async () => {
  await withFolder(async (dir) => {
    const zeros = [{ type: 0, unix_ms: 0, body: new Uint8Array(3000) }]
    await write(dir, [zeros, zeros, [{ type: 0, unix_ms: 0, body: new Uint8Array(0) }], zeros])
    const bytes = load(segmentFiles(dir)[0] as string)
    const used = lastUsedSector(bytes) + SECTOR_BYTES
    // Header, three groups of 7 sectors (64 + 56 + 28 + 3000 + 64 bytes) and one of a single sector.
    expect(used).toBe(SECTOR_BYTES * (1 + 3 * 7 + 1))
    for (let at = 0; at < used; at += SECTOR_BYTES)
      expect(bytes.subarray(at, at + SECTOR_BYTES).some((byte) => byte !== 0)).toBe(true)
  })
})

test('writing goes on behind a torn group, under another key, and the torn bytes never come back', async () => {
  await withFolder(async (dir) => {
    const { path, bytes, from } = await threeGroups(dir)
    const torn = bytes.slice()
    torn.fill(0, from + SECTOR_BYTES, from + 2 * SECTOR_BYTES)
    save(path, torn)

    let journal = await open(dir)
    expect(journal.head().seq).toBe(5)
    expect(load(path)).toEqual(torn)
    expect((await journal.append(records(7, 4, 500))).seq_last).toBe(9)
    await journal.close()

    expect(segmentFiles(dir).length).toBe(2)
    expect(statSync(path).size).toBe(from)
    // The write that makes the old end final is the publishing of the new segment: cutting the file is only thrift.
    save(path, torn)
    journal = await open(dir)
    expect((await all(journal)).map(({ seq, type }) => [seq, type])).toEqual([
      [1, 1],
      [2, 1],
      [3, 2],
      [4, 2],
      [5, 2],
      [6, 0],
      [7, 0],
      [8, 0],
      [9, 0],
    ])
    await journal.close()
  })
})

test('the same group written again at the same place gives other bytes: no key and nonce meet twice', async () => {
  await withFolder(async (dir) => {
    await write(dir, [records(1)])
    await write(dir, [records(1)])
    const [first, second] = segmentFiles(dir).map((path) =>
      load(path).subarray(SECTOR_BYTES, 2 * SECTOR_BYTES),
    )
    const shared = (first as Uint8Array).subarray(64).filter((byte, i) => byte === second?.[64 + i]).length
    // Two unrelated streams agree in about one byte of 256; a shared key stream would agree in the record's bytes.
    expect(shared).toBeLessThan(20)
  })
})

test('a crash between two steps of starting a segment loses nothing', async () => {
  await withFolder(async (dir) => {
    await write(dir, [records(1, 2)])
    const unpublished = load(segmentFiles(dir)[0] as string)
    // As if the header had been written into the spare and the rename was lost.
    save(`${dir}/spare.zeros`, unpublished)
    const journal = await open(dir)
    expect((await journal.append(records(2))).seq_last).toBe(3)
    expect((await journal.append(records(3))).seq_last).toBe(4)
    await journal.close()
    expect(readFolder(dir).records.map(({ seq }) => seq)).toEqual([1, 2, 3, 4])
    // As if the crash came right after the rename: a segment without a group.
    await write(dir, [])
    expect(readFolder(dir).seq).toBe(4)
  })
})
