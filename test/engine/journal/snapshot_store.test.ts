/** Snapshots: only whole, authentic ones at their own position are opened. */
import { expect, test } from 'bun:test'
import { readdirSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { openSnapshotStore as openStore } from '../../../engine/journal/snapshot_store'
import { concatBytes, toHex } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import { failure, KEY, load, save, withFolder } from './folder'

const MIB = 1024 * 1024
const head = (fill: number) => new Uint8Array(32).fill(fill)
const whole = (bytes: Uint8Array) => () => [bytes]
const joined = (blocks: Iterable<Uint8Array>) =>
  concatBytes(...Array.from(blocks, (block) => new Uint8Array(block)))
/** A journal's record: the hash of each snapshot by its head. */
const journaled = new Map<string, Uint8Array>()
function openSnapshotStore(where: Parameters<typeof openStore>[0]) {
  const store = openStore(where)
  return {
    seqs: store.seqs,
    prune: store.prune,
    async writeSnapshot(...args: Parameters<typeof store.writeSnapshot>) {
      journaled.set(toHex(args[0].head), await store.writeSnapshot(...args))
    },
    newestValid: () => store.newestValid(async (point) => journaled.get(toHex(point.head))),
  }
}
const names = (dir: string) => readdirSync(dir).sort()

function state(bytes: number): Uint8Array {
  const all = new Uint8Array(bytes)
  for (let i = 0; i < bytes; i++) all[i] = (i * 7 + (i >> 12)) % 256
  return all
}

test('the newest snapshot comes back as it was written, at any size', async () => {
  await withFolder(async (dir) => {
    const store = openSnapshotStore({ dir, key: KEY })
    expect(await store.newestValid()).toEqual({ snapshot: undefined, rejected: [] })
    let seq = 10
    for (const bytes of [0, 1, MIB - 1, MIB, MIB + 1, 3 * MIB + 5]) {
      const written = { seq: ++seq, head: head(seq), bytes: state(bytes) }
      await store.writeSnapshot(written, whole(written.bytes), undefined)
      const { snapshot, rejected } = await store.newestValid()
      const { blocks, ...position } = snapshot!
      const state_hash = sha256(written.bytes)
      expect({ ...position, bytes: joined(blocks()) }).toEqual({ ...written, state_hash })
      expect(rejected).toEqual([])
    }
  })
})

test('blocks of any length make the same snapshot', async () => {
  await withFolder(async (dir) => {
    const store = openSnapshotStore({ dir, key: KEY })
    const bytes = state(2 * MIB + 3)
    for (const [seq, length] of [1, 1000, MIB - 1, MIB, MIB + 1, 3 * MIB].entries()) {
      const cut = function* () {
        for (let at = 0; at < bytes.length; at += length) yield bytes.subarray(at, at + length)
      }
      await store.writeSnapshot({ seq, head: head(seq) }, cut, undefined)
      const { snapshot } = await store.newestValid()
      expect(Buffer.from(joined(snapshot!.blocks())).equals(bytes)).toBe(true)
    }
  })
})

test('a state that changes while it is written is no snapshot', async () => {
  await withFolder(async (dir) => {
    const store = openSnapshotStore({ dir, key: KEY })
    let length = 10
    const changing = () => [state(length++)]
    expect(await failure(store.writeSnapshot({ seq: 1, head: head(1) }, changing, undefined))).toBeInstanceOf(
      Error,
    )
    expect(store.seqs()).toEqual([])
  })
})

test('a file that changes between the check and the reading is noticed', async () => {
  await withFolder(async (dir) => {
    const store = openSnapshotStore({ dir, key: KEY })
    await store.writeSnapshot({ seq: 1, head: head(1) }, whole(state(2 * MIB)), undefined)
    const { snapshot } = await store.newestValid()
    const blocks = snapshot!.blocks()
    blocks.next()
    const path = join(dir, '0000000000000001.snapshot')
    const changed = load(path)
    changed[MIB + 1000]! ^= 1
    save(path, changed)
    expect(() => blocks.next()).toThrow()
  })
})

test('a counting snapshot stays next to a new one until it is pruned, and one that was never journaled goes at once', async () => {
  await withFolder(async (dir) => {
    const store = openSnapshotStore({ dir, key: KEY })
    const write = (seq: number, newest?: number) =>
      store.writeSnapshot({ seq, head: head(seq) }, whole(state(100)), newest)
    await write(8)
    await write(9, 8)
    for (const seq of [10, 11, 12]) {
      await write(seq, 9)
      expect(store.seqs()).toEqual([seq, 9, 8])
    }
    await store.prune([12, 9])
    expect(names(dir)).toEqual(['0000000000000009.snapshot', '0000000000000012.snapshot'])
  })
})

test('a damaged snapshot is passed over for the one before, at whichever byte', async () => {
  await withFolder(async (dir) => {
    const store = openSnapshotStore({ dir, key: KEY })
    await store.writeSnapshot({ seq: 1, head: head(1) }, whole(state(50)), undefined)
    await store.writeSnapshot({ seq: 2, head: head(2) }, whole(state(60)), 1)
    const path = join(dir, '0000000000000002.snapshot')
    const sound = load(path)
    for (let offset = 0; offset < sound.length; offset++) {
      const changed = sound.slice()
      changed[offset] = (changed[offset] ?? 0) ^ (1 << (offset % 8))
      save(path, changed)
      const { snapshot, rejected } = await store.newestValid()
      expect(snapshot?.seq).toBe(1)
      expect(rejected).toEqual(['0000000000000002.snapshot'])
    }
    for (const length of [0, 20, 88, sound.length - 1]) {
      save(path, sound.subarray(0, length))
      expect((await store.newestValid()).snapshot?.seq).toBe(1)
    }
  })
})

test('pieces cannot be swapped, nor a snapshot be given another place', async () => {
  await withFolder(async (dir) => {
    const store = openSnapshotStore({ dir, key: KEY })
    await store.writeSnapshot({ seq: 5, head: head(5) }, whole(state(2 * MIB)), undefined)
    const path = join(dir, '0000000000000005.snapshot')
    const sound = load(path)
    const piece = MIB + 16
    const swapped = sound.slice()
    swapped.set(sound.subarray(88, 88 + piece), 88 + piece)
    swapped.set(sound.subarray(88 + piece), 88)
    save(path, swapped)
    expect((await store.newestValid()).snapshot).toBeUndefined()
    save(path, sound)
    // A file name is only a hint: seq and head come from the authenticated header.
    renameSync(path, join(dir, '0000000000000009.snapshot'))
    expect((await store.newestValid()).snapshot?.seq).toBe(5)
  })
})

test('a snapshot under another key or an unfinished one does not count', async () => {
  await withFolder(async (dir) => {
    await openSnapshotStore({ dir, key: new Uint8Array(32).fill(1) }).writeSnapshot(
      { seq: 3, head: head(3) },
      whole(state(10)),
      undefined,
    )
    const store = openSnapshotStore({ dir, key: KEY })
    expect((await store.newestValid()).rejected).toEqual(['0000000000000003.snapshot'])
    save(join(dir, 'snapshot.unfinished'), state(500))
    await store.writeSnapshot({ seq: 4, head: head(4) }, whole(state(10)), undefined)
    expect((await store.newestValid()).snapshot?.seq).toBe(4)
    expect(
      await failure(store.writeSnapshot({ seq: 5, head: new Uint8Array(31) }, whole(state(1)), undefined)),
    ).toBeInstanceOf(RangeError)
  })
})

test('a snapshot that the journal does not name, or names with another hash, does not count', async () => {
  await withFolder(async (dir) => {
    const store = openStore({ dir, key: KEY })
    const point = { seq: 7, head: head(7) }
    const state_hash = await store.writeSnapshot(point, whole(state(MIB + 9)), undefined)
    expect(state_hash).toEqual(sha256(state(MIB + 9)))
    const found = async (hash: Uint8Array | undefined) =>
      (await store.newestValid(async () => hash)).snapshot?.seq
    expect(await found(state_hash)).toBe(7)
    expect(await found(undefined)).toBeUndefined()
    expect(await found(sha256(state(MIB + 8)))).toBeUndefined()
  })
})
