/** Damage in old files is reported while the venue runs; a start from the older snapshot loses neither reads nor rows. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { copyFileSync, cpSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { openSnapshotStore } from '../../../engine/journal/snapshot_store'
import { LIMITS } from '../../../engine/limits'
import { coverable } from '../../../engine/machine/state/past'
import { makeSnapshot } from '../../../engine/snapshots/make_snapshot'
import { Scrub } from '../../../engine/snapshots/scrub'
import { Stores } from '../../../engine/stores/stores'
import { World } from '../../kit/venue/machine_world'
import { TestSite } from '../../kit/venue/open_test_venue'
import { Trader } from '../../kit/venue/trader'
import { KEY, load, records, save, segmentFiles, withFolder, write } from '../journal/folder'

function flip(path: string, at: number): void {
  const bytes = load(path)
  bytes[at]! ^= 1
  save(path, bytes)
}
const until = async (holds: () => boolean) => {
  while (!holds()) await Bun.sleep(1)
}

/** A journal of several segments and two snapshots, all verified at once and again and again. */
async function scrubbed(
  body: (
    scrub: Scrub,
    dirs: { journal: string; snapshots: string },
    keep: (seqs: readonly number[]) => void,
  ) => Promise<void>,
) {
  await withFolder(async (dir) => {
    let kept: readonly number[] = []
    const dirs = { journal: join(dir, 'journal'), snapshots: join(dir, 'snapshots') }
    const groups = Array.from({ length: 40 }, (_, i) => records(i, 3, 300))
    await write(dirs.journal, groups, 8_192)
    const store = openSnapshotStore({ dir: dirs.snapshots, key: KEY })
    const stores = Stores.empty({ dir: dirs.snapshots, key: KEY })
    for (const seq of [3, 60]) {
      stores.write(seq)
      const blocks = () => [new Uint8Array(2_000_000).fill(seq)]
      await store.writeSnapshot({ seq, head: new Uint8Array(32) }, blocks, 3)
    }
    const scrub = new Scrub(
      { journal_dir: dirs.journal, snapshots_dir: dirs.snapshots, stores_dir: dirs.snapshots, key: KEY },
      () => kept,
      0,
    )
    try {
      scrub.begin()
      await body(scrub, dirs, (seqs) => {
        kept = seqs
      })
    } finally {
      scrub.stop()
    }
  })
}

test('stores that cannot follow a catalogue answer as before', async () => {
  await withFolder(async (dir) => {
    const stores = Stores.empty({ dir, key: KEY })
    const { state } = new World()
    state.leaves.append(KEY)
    stores.extend(state, coverable(state))
    const hash = stores.write(1)
    for (const name of readdirSync(dir)) if (name.endsWith('.part')) rmSync(join(dir, name))
    expect(() => stores.follow(1, hash)).toThrow()
    expect(stores.indexOf('leaves', KEY)).toBe(0)
    stores.close()
  })
})

test('a folder that cannot be listed for a while ends no later look', async () => {
  await scrubbed(async (scrub, { journal, snapshots }) => {
    const away = `${snapshots}.away`
    renameSync(snapshots, away)
    writeFileSync(snapshots, '')
    await Bun.sleep(200)
    rmSync(snapshots)
    renameSync(away, snapshots)
    const [first] = segmentFiles(journal)
    flip(first!, 5_000)
    await until(() => scrub.damaged.length === 1)
  })
})

test('a changed byte of any old segment or snapshot is named, until the file is put back or deleted', async () => {
  await scrubbed(async (scrub, { journal, snapshots }) => {
    const [first, second, third] = segmentFiles(journal)
    const copy = `${second}.copy`
    copyFileSync(second!, copy)
    flip(second!, 5_000)
    await until(() => scrub.damaged.length === 1)
    expect(scrub.damaged).toEqual(['0000000002.segment'])
    const store = openSnapshotStore({ dir: snapshots, key: KEY })
    const [newest, older] = store.seqs()
    expect([newest, older]).toEqual([60, 3])
    // In the last piece.
    flip(join(snapshots, `${String(3).padStart(16, '0')}.snapshot`), 1_500_000)
    await until(() => scrub.damaged.length === 2)
    expect(scrub.damaged.toSorted()).toEqual(['0000000000000003.snapshot', '0000000002.segment'])
    copyFileSync(copy, second!)
    rmSync(join(snapshots, `${String(3).padStart(16, '0')}.snapshot`))
    await until(() => scrub.damaged.length === 0)
    // The header, which says where the segment before it ends.
    flip(third!, 40)
    await until(() => scrub.damaged.length === 2)
    expect(scrub.damaged.toSorted()).toEqual(['0000000002.segment', '0000000003.segment'])
    flip(third!, 40)
    await until(() => scrub.damaged.length === 0)
    // Only the newest is still being written.
    const finished = segmentFiles(journal).at(-2)!
    flip(finished, 5_000)
    await until(() => scrub.damaged.length === 1)
    flip(finished, 5_000)
    await until(() => scrub.damaged.length === 0)
    // A later frame of the same length in the place of an earlier one, and a cut.
    const bytes = load(first!)
    save(first!, bytes.subarray(0, bytes.length - 512))
    await until(() => scrub.damaged.includes('0000000001.segment'))
  })
})

test('a segment that is gone is named, with the one before it, whose end it states', async () => {
  await scrubbed(async (scrub, { journal }) => {
    const second = segmentFiles(journal)[1]!
    const away = join(journal, '..', 'away')
    renameSync(second, away)
    await until(() => scrub.damaged.length === 2)
    expect(scrub.damaged.toSorted()).toEqual(['0000000001.segment', '0000000002.segment'])
    renameSync(away, second)
    await until(() => scrub.damaged.length === 0)
  })
})

test('a snapshot or a catalogue that the journal needs and that is gone is named, until another takes its place', async () => {
  await scrubbed(async (scrub, { snapshots }, keep) => {
    keep([60, 3])
    const names = [60, 3].flatMap((seq) =>
      ['catalogue', 'snapshot'].map((kind) => `${String(seq).padStart(16, '0')}.${kind}`),
    )
    const away = (name: string) => join(snapshots, '..', name)
    for (const name of names) {
      renameSync(join(snapshots, name), away(name))
      await until(() => scrub.damaged.length > 0)
      expect(scrub.damaged).toEqual([name])
      renameSync(away(name), join(snapshots, name))
      await until(() => scrub.damaged.length === 0)
    }
    for (const name of names) rmSync(join(snapshots, name))
    await until(() => scrub.damaged.length === names.length)
    expect(scrub.damaged.toSorted()).toEqual(names.toSorted())
    keep([])
    await until(() => scrub.damaged.length === 0)
  })
})

test('a changed byte of a catalogue, and of a part that only the older snapshot needs, is named', async () => {
  const site = new TestSite()
  try {
    const open = await site.open()
    const { snapshotting, sequencer } = open.engine
    const alice = await Trader.provisioned(open, 'alice')
    for (let leaf = 0; leaf < LIMITS.store_parts_per_level; leaf++) {
      alice.deposit('quote', 200_000_000n)
      await open.chain.finalizeLeaves()
      await sequencer.durable()
      await snapshotting.now()
    }
    await open.close()
    const [journal_dir, snapshots_dir, stores_dir] = ['journal', 'snapshots', 'stores'].map((name) =>
      join(site.dir, name),
    )
    const stored = readdirSync(stores_dir!).toSorted()
    const catalogues = stored.filter((name) => name.endsWith('.catalogue'))
    const parts = stored.filter((name) => name.endsWith('.part'))
    expect(catalogues).toHaveLength(2)
    // The newest has merged those of the older one.
    expect(parts).toHaveLength(LIMITS.store_parts_per_level)
    const scrub = new Scrub(
      {
        journal_dir: journal_dir!,
        snapshots_dir: snapshots_dir!,
        stores_dir: stores_dir!,
        key: site.keys.journal_key,
      },
      () => [],
      0,
    )
    try {
      scrub.begin()
      for (const name of parts) flip(join(stores_dir!, name), 4_000)
      await until(() => scrub.damaged.length === parts.length)
      expect(scrub.damaged.toSorted()).toEqual(parts)
      for (const name of parts) flip(join(stores_dir!, name), 4_000)
      await until(() => scrub.damaged.length === 0)
      flip(join(stores_dir!, catalogues[0]!), 40)
      await until(() => scrub.damaged.length === 1)
      expect(scrub.damaged).toEqual([catalogues[0]!])
      flip(join(stores_dir!, catalogues[0]!), 40)
      await until(() => scrub.damaged.length === 0)
      // The running venue reads a deleted part, and the next start does not find it.
      for (const name of [parts[0]!, catalogues[1]!]) {
        renameSync(join(stores_dir!, name), join(site.dir, name))
        await until(() => scrub.damaged.length > 0)
        expect(scrub.damaged).toEqual([name])
        renameSync(join(site.dir, name), join(stores_dir!, name))
        await until(() => scrub.damaged.length === 0)
      }
    } finally {
      scrub.stop()
    }
  } finally {
    await site.remove()
  }
}, 120_000)

const { stall_min_ms } = LIMITS
beforeAll(() => Object.assign(LIMITS, { stall_min_ms: 600_000 }))
afterAll(() => Object.assign(LIMITS, { stall_min_ms }))

for (const models of ['older', 'lost'])
  test(`a kept snapshot stays until the next is journaled, also where the read models are ${models}`, async () => {
    const site = new TestSite()
    try {
      const first = await site.open()
      const trader = await Trader.provisioned(first, 'alice')
      const again = async () => {
        trader.deposit('quote', 200_000_000n)
        await first.chain.finalizeLeaves()
        await first.engine.sequencer.durable()
      }
      await again()
      await first.engine.snapshotting.now()
      const dirs = ['history', 'facts'].map((name) => join(first.config.data_dir, name))
      await first.engine.loaded.history.flush()
      for (const dir of dirs) cpSync(dir, `${dir}-copy`, { recursive: true })
      await again()
      await first.engine.snapshotting.now()
      await first.engine.anchoring.now()
      const kept = first.engine.snapshotting.kept
      expect(kept).toHaveLength(2)
      await first.close()
      for (const dir of dirs) {
        rmSync(dir, { recursive: true })
        if (models === 'older') cpSync(`${dir}-copy`, dir, { recursive: true })
      }
      const second = await site.open()
      expect(second.engine.loaded.snapshot?.seq).toBe(models === 'older' ? kept[1] : undefined)
      const { data_dir } = second.config
      await second.engine.sequencer.durable()
      const point = {
        ...second.engine.loaded.journal.head(),
        unix_ms: 0,
        newest: second.engine.snapshotting.newest,
      }
      // And the process ends before the record.
      await makeSnapshot(
        {
          journal_dir: join(data_dir, 'journal'),
          snapshots_dir: join(data_dir, 'snapshots'),
          stores_dir: join(data_dir, 'stores'),
          journal_key: site.keys.journal_key,
          retention_ms: 86_400_000,
        },
        point,
      )
      expect(second.engine.loaded.snapshots.seqs()).toEqual([point.seq, ...kept])
      expect(second.engine.snapshotting.kept).toEqual(kept)
    } finally {
      await site.remove()
    }
  }, 60_000)
