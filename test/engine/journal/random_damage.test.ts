/**
 * After any damage to its files a journal reads back as it was written, without a gap, or is rejected.
 * TACIT_DAMAGE_SEED replays a run.
 */
import { expect, test } from 'bun:test'
import { rmSync } from 'node:fs'
import { basename } from 'node:path'
import { JournalDamaged, type JournalRecord } from '../../../engine/journal/contract'
import { SECTOR_BYTES } from '../../../engine/journal/segment_header'
import { Random } from '../../kit/random'
import { load, readFolder, records, save, segmentFiles, withFolder, write } from './folder'

const ROUNDS = Number(process.env['TACIT_DAMAGE_ROUNDS'] ?? 400)
const SEED = Number(process.env['TACIT_DAMAGE_SEED'] ?? crypto.getRandomValues(new Uint32Array(1))[0])
const STARTS = 4

type Files = Map<string, Uint8Array>
type Blow = (random: Random, files: Files, foreign: Files) => void

const pickFile = (random: Random, files: Files): [string, Uint8Array] => random.pick([...files])
/** A sector that something was written to, header included. */
function pickSector(random: Random, bytes: Uint8Array): Uint8Array {
  const used = Math.max(1, Math.ceil((bytes.findLastIndex((byte) => byte !== 0) + 1) / SECTOR_BYTES))
  const at = random.between(0, used - 1) * SECTOR_BYTES
  return bytes.subarray(at, at + SECTOR_BYTES)
}
function overwrite(into: Uint8Array, from: Uint8Array): void {
  into.set(from.subarray(0, into.length))
}

const BLOWS: Record<string, Blow> = {
  cut_short(random, files) {
    const [name, bytes] = pickFile(random, files)
    files.set(name, bytes.slice(0, random.between(0, bytes.length)))
  },
  lost_sectors(random, files) {
    const [, bytes] = pickFile(random, files)
    for (let left = random.between(1, 3); left > 0; left--) pickSector(random, bytes).fill(0)
  },
  lost_tail(random, files) {
    const [, bytes] = pickFile(random, files)
    bytes.fill(0, pickSector(random, bytes).byteOffset - bytes.byteOffset)
  },
  flipped_bits(random, files) {
    const [, bytes] = pickFile(random, files)
    for (let left = random.between(1, 3); left > 0; left--) {
      const sector = pickSector(random, bytes)
      const at = random.between(0, sector.length - 1)
      sector[at] = sector[at]! ^ (1 << random.between(0, 7))
    }
  },
  noise(random, files) {
    overwrite(
      pickSector(random, pickFile(random, files)[1]),
      Uint8Array.from({ length: 512 }, () => random.between(0, 255)),
    )
  },
  swapped_sectors(random, files) {
    const one = pickSector(random, pickFile(random, files)[1])
    const other = pickSector(random, pickFile(random, files)[1])
    const kept = one.slice()
    overwrite(one, other)
    overwrite(other, kept)
  },
  repeated_sector(random, files) {
    const from = pickSector(random, pickFile(random, files)[1]).slice()
    const [, bytes] = pickFile(random, files)
    // Also behind the end of the written bytes.
    const sector = pickSector(random, bytes)
    const next = Math.min(sector.byteOffset - bytes.byteOffset + SECTOR_BYTES, bytes.length - SECTOR_BYTES)
    overwrite(random.chance(0.5) || next < 0 ? sector : bytes.subarray(next, next + SECTOR_BYTES), from)
  },
  foreign_sector(random, files, foreign) {
    const from = pickSector(random, pickFile(random, foreign)[1])
    overwrite(pickSector(random, pickFile(random, files)[1]), from)
  },
  lost_file(random, files) {
    files.delete(pickFile(random, files)[0])
  },
  swapped_files(random, files) {
    const [one, bytes] = pickFile(random, files)
    const [other, others] = pickFile(random, files)
    files.set(one, others.slice()).set(other, bytes.slice())
  },
  foreign_file(random, files, foreign) {
    files.set(pickFile(random, files)[0], pickFile(random, foreign)[1].slice())
  },
}

/** A journal of several starts and segments. */
async function writeJournal(dir: string, salt: number): Promise<Files> {
  for (let start = 0; start < STARTS; start++) {
    const groups = Array.from({ length: 5 }, (_, at) =>
      records(salt + start * 10 + at, 1 + (at % 3), 300 * at),
    )
    await write(dir, groups)
  }
  return filesOf(dir)
}
const filesOf = (dir: string): Files => new Map(segmentFiles(dir).map((path) => [basename(path), load(path)]))
const copyOf = (files: Files): Files => new Map([...files].map(([name, bytes]) => [name, bytes.slice()]))

function put(dir: string, files: Files): void {
  for (const path of segmentFiles(dir)) rmSync(path)
  for (const [name, bytes] of files) save(`${dir}/${name}`, bytes)
}

/** The law that a read breaks; undefined when it was rejected or is right. */
function read(
  dir: string,
  written: readonly JournalRecord[],
): { came: 'refused' | 'shorter' | 'whole'; fault?: string } {
  let found: JournalRecord[]
  try {
    found = readFolder(dir).records
  } catch (error) {
    if (error instanceof JournalDamaged) return { came: 'refused' }
    throw error
  }
  const first = found[0]?.seq ?? 1
  const wrong = found.findIndex((record, at) => !Bun.deepEquals(record, written[first - 1 + at]))
  const came = found.length < written.length ? 'shorter' : 'whole'
  return wrong === -1
    ? { came }
    : { came, fault: `record ${wrong} of a journal from seq ${first} is another` }
}

test(`damage of every kind is refused or leaves the written records (seed ${SEED})`, async () => {
  await withFolder(async (other) => {
    await withFolder(async (dir) => {
      const random = new Random(SEED)
      const [sound, foreign] = [await writeJournal(dir, 1), await writeJournal(other, 101)]
      const written = readFolder(dir).records
      expect(sound.size).toBeGreaterThanOrEqual(STARTS)
      const counts = new Map<string, number>()
      for (let round = 0; round < ROUNDS; round++) {
        const files = copyOf(sound)
        const blows = Array.from({ length: random.between(1, 3) }, () => random.pick(Object.keys(BLOWS)))
        // The end of a journal is where a crash leaves its marks.
        const struck = random.chance(0.5) ? new Map([...files].slice(-1)) : files
        for (const name of blows) if (struck.size > 0) BLOWS[name]!(random, struck, foreign)
        put(dir, struck === files ? files : new Map([...files, ...struck]))
        const { came, fault } = read(dir, written)
        if (fault !== undefined) throw new Error(`round ${round}, ${blows.join(', ')}: ${fault}`)
        counts.set(came, (counts.get(came) ?? 0) + 1)
      }
      console.log(JSON.stringify(Object.fromEntries(counts)))
      expect(counts.get('refused')).toBeGreaterThan(ROUNDS / 4)
      expect(counts.get('shorter')).toBeGreaterThan(ROUNDS / 100)
    })
  })
}, 180_000)
