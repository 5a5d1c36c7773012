/** Damage in old segments and snapshots is reported while the venue runs, before a start needs the files. */
import { expect, test } from 'bun:test'
import { copyFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { openSnapshotStore } from '../../../engine/journal/snapshot_store'
import { Scrub } from '../../../engine/snapshots/scrub'
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
async function scrubbed(body: (scrub: Scrub, dirs: { journal: string; snapshots: string }) => Promise<void>) {
  await withFolder(async (dir) => {
    const dirs = { journal: join(dir, 'journal'), snapshots: join(dir, 'snapshots') }
    const groups = Array.from({ length: 40 }, (_, i) => records(i, 3, 300))
    await write(dirs.journal, groups, 8_192)
    const store = openSnapshotStore({ dir: dirs.snapshots, key: KEY })
    for (const seq of [3, 60]) {
      const blocks = () => [new Uint8Array(2_000_000).fill(seq)]
      await store.writeSnapshot({ seq, head: new Uint8Array(32) }, blocks, 3)
    }
    const scrub = new Scrub({ journal_dir: dirs.journal, snapshots_dir: dirs.snapshots, key: KEY }, 0)
    try {
      scrub.begin()
      await body(scrub, dirs)
    } finally {
      scrub.stop()
    }
  })
}

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
    // A later frame of the same length in the place of an earlier one, and a cut.
    const bytes = load(first!)
    save(first!, bytes.subarray(0, bytes.length - 512))
    await until(() => scrub.damaged.includes('0000000001.segment'))
  })
})
