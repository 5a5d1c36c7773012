/** Damage in written history rejects the start, names the seq and changes nothing. */
import { expect, test } from 'bun:test'
import { copyFileSync, renameSync, rmSync } from 'node:fs'
import { crc32 } from 'node:zlib'
import { JournalDamaged } from '../../../engine/journal/contract'
import { advance, encodeGroup } from '../../../engine/journal/frame'
import { openJournal } from '../../../engine/journal/open_journal'
import { checkSegment, recover } from '../../../engine/journal/read_segments'
import { SECTOR_BYTES } from '../../../engine/journal/segment_header'
import {
  all,
  failure,
  fingerprint,
  KEY,
  load,
  open,
  readFolder,
  records,
  SEGMENT_BYTES,
  save,
  segmentFiles,
  withFolder,
  write,
} from './folder'

/** Three groups of seq 1..2, 3..5 and 6..9 in sectors 1, 2 and 3 to 7 of one segment. */
const GROUPS = [records(1, 2), records(2, 3), records(3, 4, 500)]
const END = 8 * SECTOR_BYTES

/** First seq of the group that owns the byte, as the error has to name it. */
function seqAt(offset: number): number {
  const sector = Math.floor(offset / SECTOR_BYTES)
  return sector <= 1 ? 1 : sector === 2 ? 3 : 6
}

function damageOf(dir: string): JournalDamaged {
  try {
    readFolder(dir)
  } catch (error) {
    if (error instanceof JournalDamaged) return error
    throw error
  }
  throw new Error('the journal was taken as sound')
}

/** Opening or reading through the real journal must reject, and leave every file as it is. */
async function refuses(dir: string, seq: number): Promise<void> {
  const before = fingerprint(dir)
  const refusal = await failure(
    open(dir).then(async (journal) => {
      await all(journal).finally(() => journal.close())
    }),
  )
  expect(refusal).toBeInstanceOf(JournalDamaged)
  expect((refusal as JournalDamaged).seq).toBe(seq)
  expect((refusal as JournalDamaged).message).toContain(`seq ${seq}`)
  // A journal that was opened prepares the next segment's empty file; written bytes stay.
  expect(fingerprint(dir).filter((line) => !line.startsWith('spare'))).toEqual(
    before.filter((line) => !line.startsWith('spare')),
  )
}

test('a changed bit anywhere in the written bytes is damage and names the first seq it puts in doubt', async () => {
  await withFolder(async (dir) => {
    await write(dir, GROUPS)
    const path = segmentFiles(dir)[0] as string
    const sound = load(path)
    for (let offset = 0; offset < END; offset++) {
      const changed = sound.slice()
      changed[offset] = (changed[offset] ?? 0) ^ (1 << (offset % 8))
      save(path, changed)
      const { seq, file, offset: at } = damageOf(dir)
      expect({ offset, seq, file }).toEqual({ offset, seq: seqAt(offset), file: '0000000001.segment' })
      expect(at).toBeLessThanOrEqual(offset)
    }
    save(path, sound)
    expect(readFolder(dir).seq).toBe(9)
  })
})

test('the venue does not start on damage and changes nothing, wherever the damage is', async () => {
  await withFolder(async (dir) => {
    await write(dir, GROUPS)
    const path = segmentFiles(dir)[0] as string
    const sound = load(path)
    for (const offset of [0, 60, 130, 511, 512, 530, 570, 700, 1023, 1024, 1600, 1700, 2600, END - 1]) {
      const changed = sound.slice()
      changed[offset] = (changed[offset] ?? 0) ^ 0x10
      save(path, changed)
      await refuses(dir, seqAt(offset))
    }
  })
})

test('a durable group that is erased, wholly or in part, is damage: a later one follows it', async () => {
  await withFolder(async (dir) => {
    await write(dir, [records(3, 4, 500), records(1, 2), records(2, 3)])
    const path = segmentFiles(dir)[0] as string
    const sound = load(path)
    for (let missing = 1; missing < 2 ** 5; missing++) {
      const erased = sound.slice()
      for (let i = 0; i < 5; i++) {
        const at = (1 + i) * SECTOR_BYTES
        if ((missing & (1 << i)) !== 0) erased.fill(0, at, at + SECTOR_BYTES)
      }
      save(path, erased)
      expect(damageOf(dir).seq).toBe(1)
    }
    await refuses(dir, 1)
  })
})

test('groups that change places or occur twice are damage', async () => {
  await withFolder(async (dir) => {
    await write(dir, [records(1), records(2), records(3), records(4)])
    const path = segmentFiles(dir)[0] as string
    const sound = load(path)
    const sector = (i: number) => sound.subarray(i * SECTOR_BYTES, (i + 1) * SECTOR_BYTES)
    for (let from = 1; from <= 4; from++) {
      for (let to = 1; to <= 5; to++) {
        if (from === to) continue
        const copied = sound.slice()
        copied.set(sector(from), to * SECTOR_BYTES)
        save(path, copied)
        expect({ from, to, seq: damageOf(dir).seq }).toEqual({ from, to, seq: to })
      }
    }
    const swapped = sound.slice()
    swapped.set(sector(2), 3 * SECTOR_BYTES)
    swapped.set(sector(3), 2 * SECTOR_BYTES)
    save(path, swapped)
    await refuses(dir, 2)
  })
})

test('a group of another journal with the same key is refused at the same place', async () => {
  await withFolder(async (other) => {
    await withFolder(async (dir) => {
      await write(dir, [records(1), records(2)])
      await write(other, [records(1), records(3)])
      const [path, foreign] = [segmentFiles(dir)[0] as string, segmentFiles(other)[0] as string]
      const mixed = load(path)
      mixed.set(load(foreign).subarray(2 * SECTOR_BYTES, 3 * SECTOR_BYTES), 2 * SECTOR_BYTES)
      save(path, mixed)
      await refuses(dir, 2)
    })
  })
})

test('segments that are missing, renamed, copied, swapped or cut short are refused', async () => {
  await withFolder(async (dir) => {
    await write(
      dir,
      Array.from({ length: 80 }, (_, i) => records(i, 1, 900)),
    )
    const [first, second, third] = segmentFiles(dir) as [string, string, string]
    const sound = [first, second, third].map(load) as [Uint8Array, Uint8Array, Uint8Array]
    const restore = () => {
      for (const [i, path] of [first, second, third].entries()) save(path, sound[i] as Uint8Array)
    }
    const starts_at = sequenceOfSegments(dir)

    rmSync(second)
    await refuses(dir, starts_at[0])
    restore()
    copyFileSync(first, second)
    await refuses(dir, starts_at[0])
    restore()
    renameSync(third, `${third}.away`)
    renameSync(second, third)
    renameSync(`${third}.away`, second)
    await refuses(dir, starts_at[0])
    restore()
    save(second, sound[1].subarray(0, sound[1].length - SECTOR_BYTES * 6))
    const { seq } = damageOf(dir)
    expect(seq).toBeGreaterThan(starts_at[1])
    expect(seq).toBeLessThan(starts_at[2])
    await refuses(dir, seq)
    restore()
    expect(readFolder(dir).seq).toBe(80)
  })
})

/** First seq of each of the first three segments. */
function sequenceOfSegments(dir: string): [number, number, number] {
  const [a, b, c] = recover(dir, KEY).segments.map(({ seq }) => seq + 1)
  return [a ?? 0, b ?? 0, c ?? 0]
}

test('another key opens nothing and changes nothing', async () => {
  await withFolder(async (dir) => {
    await write(dir, GROUPS)
    const before = fingerprint(dir)
    const key = new Uint8Array(32).fill(8)
    const refusal = await failure(openJournal({ dir, key, segment_bytes: SEGMENT_BYTES }))
    expect(refusal).toBeInstanceOf(JournalDamaged)
    expect((refusal as JournalDamaged).message).toContain('another key')
    expect(fingerprint(dir)).toEqual(before)
  })
})

test('the files show neither plaintext nor the same bytes twice', async () => {
  await withFolder(async (dir) => {
    const secret = new TextEncoder().encode('price_limit 1234567890')
    const group = [{ type: 1, unix_ms: 1, body: secret }]
    await write(dir, [group, group])
    const bytes = Buffer.from(load(segmentFiles(dir)[0] as string))
    expect(bytes.includes('price_limit')).toBe(false)
    const sector = (i: number) => bytes.subarray(i * SECTOR_BYTES + 64, (i + 1) * SECTOR_BYTES)
    expect(sector(1).equals(sector(2))).toBe(false)
  })
})

test('a whole old segment in the place of another is noticed by the scrub: the next one does not follow it', async () => {
  await withFolder(async (dir) => {
    const other = `${dir}-other`
    try {
      // Each opening begins a segment, and both have the same places and seqs.
      for (const [folder, mark] of [
        [dir, 1],
        [other, 2],
      ] as const)
        for (const begins of [mark, mark + 10]) await write(folder, [records(begins, 2)])
      const [ours, theirs] = [segmentFiles(dir), segmentFiles(other)]
      checkSegment({ dir, key: KEY }, 1)
      save(ours[0]!, load(theirs[0]!))
      const check = () => checkSegment({ dir, key: KEY }, 1)
      expect(check).toThrow(JournalDamaged)
      expect(check).toThrow('the segment ends before its successor begins')
    } finally {
      rmSync(other, { recursive: true, force: true })
    }
  })
})

test('a record that reaches beyond its group is the one that is named, even where its checksum holds', () => {
  const plain = encodeGroup(records(1, 2), 1, new Uint8Array(32))
  const from = { seq: 0, head: new Uint8Array(32) }
  const header = { frame: 0, plain_bytes: plain.length, seq_first: 1, records: 2, groups: 1 }
  expect(advance(plain, header, from)).toMatchObject({ seq: 2 })
  // The last record begins behind the other one of the same size; 64 bytes follow the group.
  const end = plain.length - 64
  const at = end - (24 + 40 + 4)
  const view = new DataView(plain.buffer, plain.byteOffset)
  expect(view.getUint32(at, true)).toBe(40)
  view.setUint32(at, 44, true)
  view.setUint32(end, crc32(plain.subarray(at, end)), true)
  expect(advance(plain, header, from)).toBe(2)
})
