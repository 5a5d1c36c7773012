/** Journal folders for tests: temporary, with small segments, and their bytes to look at or change. */

import { createHash } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type {
  Appended,
  GroupSigner,
  Journal,
  JournalRecord,
  NewRecord,
} from '../../../engine/journal/contract'
import { readRecords } from '../../../engine/journal/frame'
import { openJournal } from '../../../engine/journal/open_journal'
import { readSegments, recover } from '../../../engine/journal/read_segments'
import { publicKeyOf } from '../../../protocol/sign'
import { type DiskFaults, failing } from '../../kit/venue/failing_disk'

export const KEY = new Uint8Array(32).fill(7)
export const SEGMENT_BYTES = 16 * 1024
const SEED = new Uint8Array(32).fill(3)
/** The author of every group; the journal itself does not verify certificates. */
export const SIGNER: GroupSigner = {
  venue: new Uint8Array(32).fill(1),
  epoch: 4,
  seed: SEED,
  statement_key: publicKeyOf(SEED),
  certificate: new Uint8Array(64).fill(2),
}

/** Runs `body` with an empty folder that is removed afterwards. */
export async function withFolder(body: (dir: string) => Promise<void>): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), 'tacit-journal-'))
  try {
    await body(dir)
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
}

export async function open(
  dir: string,
  segment_bytes = SEGMENT_BYTES,
  faults?: DiskFaults,
): Promise<Journal> {
  const journal = await openJournal({ dir, key: KEY, segment_bytes, ...failing(faults) })
  journal.signAs(SIGNER)
  return journal
}

/** `count` records whose bodies differ by `mark` and index. */
export function records(mark: number, count = 1, body_bytes = 40): NewRecord[] {
  return Array.from({ length: count }, (_, i) => {
    const body = new Uint8Array(body_bytes).fill((mark * 31 + i) % 251)
    return { type: mark % 7, unix_ms: 1_760_000_000_000 + mark, body }
  })
}

/** Writes one group per entry of `groups`, one after another, closes, and says where each ended. */
export async function write(
  dir: string,
  groups: NewRecord[][],
  segment_bytes = SEGMENT_BYTES,
): Promise<Appended[]> {
  const journal = await open(dir, segment_bytes)
  const ends: Appended[] = []
  for (const group of groups) ends.push(await journal.append(group))
  await journal.close()
  return ends
}

export const all = (journal: Journal, from_seq = 1): Promise<JournalRecord[]> =>
  Array.fromAsync(recordsOf(journal, from_seq))

export async function* recordsOf(
  journal: Pick<Journal, 'readBatches'>,
  from_seq = 1,
  head_before?: Uint8Array,
): AsyncGenerator<JournalRecord> {
  for await (const { records } of journal.readBatches(from_seq, head_before)) yield* records
}

/** Recovers and reads the folder in this thread, as the worker does; fast enough for every byte of a file. */
export function readFolder(dir: string): { seq: number; head: Uint8Array; records: JournalRecord[] } {
  const { segments, end } = recover(dir, KEY)
  const found: JournalRecord[] = []
  if (end === undefined) return { seq: 0, head: new Uint8Array(32), records: found }
  const first = segments[0]?.seq ?? 0
  const reader = readSegments({ dir, key: KEY }, segments, end, first + 1, [])
  for (let last = false; !last; ) {
    const chunk = reader.next()
    readRecords(chunk.groups, first + 1, found)
    last = chunk.last
  }
  return { seq: end.seq, head: end.head, records: found }
}

export const segmentFiles = (dir: string): string[] =>
  readdirSync(dir)
    .filter((name) => name.endsWith('.segment'))
    .sort()
    .map((name) => join(dir, name))

/** Hash of every file in the folder, to prove that nothing was modified. The lock is no part of the journal. */
export function fingerprint(dir: string): string[] {
  return readdirSync(dir)
    .filter((name) => name !== 'journal.lock')
    .sort()
    .map(
      (name) =>
        `${name} ${createHash('sha256')
          .update(readFileSync(join(dir, name)))
          .digest('hex')}`,
    )
}

export const load = (path: string): Uint8Array => new Uint8Array(readFileSync(path))
export const save = (path: string, bytes: Uint8Array): void => writeFileSync(path, bytes)

/** The error of a rejected promise; `expect().rejects` would hold up the very worker that has to answer. */
export async function failure(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise
  } catch (error) {
    return error
  }
  throw new Error('it was expected to fail')
}
