/**
 * Compares the journal with the disk's limit: a raw loop of pwrite and fdatasync into a preallocated file on the
 * same disk, in the same run. `bun bench/journal.ts [folder]`; one JSON line per figure, then a table.
 */
import {
  closeSync,
  existsSync,
  fdatasyncSync,
  fsyncSync,
  mkdtempSync,
  openSync,
  rmSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Journal } from '../engine/journal/contract'
import { openJournal } from '../engine/journal/open_journal'
import { SPARE_NAME } from '../engine/journal/segment_files'
import { publicKeyOf } from '../protocol/sign'
import { printTable, quantile } from './kit/figures'

/** As the body of a place command with its signature. */
const BODY_BYTES = 230
/** Bytes of a record in the journal beside its body. */
const OVERHEAD_BYTES = 28
const SECONDS = 1.5
const REPLAY_RECORDS = 1_000_000
const GROUPS = [1, 16, 64, 256]
const SEED = new Uint8Array(32).fill(2)
const SIGNER = {
  venue: new Uint8Array(32),
  epoch: 1,
  seed: SEED,
  statement_key: publicKeyOf(SEED),
  certificate: new Uint8Array(64),
}
const KEY = new Uint8Array(32).fill(1)

type Figure = {
  name: string
  group: number
  lanes: number
  records_per_s: number
  groups_per_s: number
  p50_us: number
  p99_us: number
}
const figures: Figure[] = []

function report(
  name: string,
  group: number,
  lanes: number,
  latencies_ms: number[],
  elapsed_ms: number,
): void {
  const at = (share: number) => Math.round(quantile(latencies_ms, share) * 1000)
  const figure = {
    name,
    group,
    lanes,
    records_per_s: Math.round((latencies_ms.length * group * 1000) / elapsed_ms),
    groups_per_s: Math.round((latencies_ms.length * 1000) / elapsed_ms),
    p50_us: at(0.5),
    p99_us: at(0.99),
  }
  figures.push(figure)
  console.log(JSON.stringify({ bench: 'journal', ...figure }))
}

/** The floor: the same bytes, no framing, no encryption, no thread. */
function raw(dir: string, group: number): void {
  const bytes = new Uint8Array(Math.ceil((group * (BODY_BYTES + OVERHEAD_BYTES)) / 512) * 512).fill(7)
  const size = 64 * 1024 * 1024
  const path = join(dir, 'raw')
  const fd = openSync(path, 'w')
  const zeros = new Uint8Array(1024 * 1024)
  for (let at = 0; at < size; at += zeros.length) writeSync(fd, zeros, 0, zeros.length, at)
  fsyncSync(fd)
  const latencies: number[] = []
  const begun = performance.now()
  for (let at = 0; performance.now() - begun < SECONDS * 1000; at += bytes.length) {
    const start = performance.now()
    writeSync(fd, bytes, 0, bytes.length, at % (size - bytes.length))
    fdatasyncSync(fd)
    latencies.push(performance.now() - start)
  }
  report('raw pwrite+fdatasync', group, 1, latencies, performance.now() - begun)
  closeSync(fd)
  rmSync(path)
}

/** Waits until the next segment is prepared, so that its writes are not part of the figures of small groups. */
async function settle(journal: Journal, folder: string): Promise<void> {
  do await journal.append([{ type: 1, unix_ms: 0, body: new Uint8Array(1) }])
  while (!existsSync(join(folder, SPARE_NAME)))
}

/** `lanes` callers, each with one group under way: 1 shows the latency, more show the group commit. */
async function appends(journal: Journal, group: number, lanes: number): Promise<void> {
  const records = Array.from({ length: group }, () => ({
    type: 1,
    unix_ms: 0,
    body: new Uint8Array(BODY_BYTES).fill(3),
  }))
  const latencies: number[] = []
  const begun = performance.now()
  const lane = async () => {
    while (performance.now() - begun < SECONDS * 1000) {
      const start = performance.now()
      await journal.append(records)
      latencies.push(performance.now() - start)
    }
  }
  await Promise.all(Array.from({ length: lanes }, lane))
  report('journal append', group, lanes, latencies, performance.now() - begun)
}

async function replay(dir: string, group: number): Promise<void> {
  const folder = join(dir, `replay-${group}`)
  const records = Array.from({ length: group }, () => ({
    type: 1,
    unix_ms: 0,
    body: new Uint8Array(BODY_BYTES).fill(3),
  }))
  let journal = await openJournal({ dir: folder, key: KEY })
  journal.signAs(SIGNER)
  let left = Math.ceil(REPLAY_RECORDS / group)
  const lane = async () => {
    while (left-- > 0) await journal.append(records)
  }
  await Promise.all(Array.from({ length: 64 }, lane))
  await journal.close()
  const begun = performance.now()
  journal = await openJournal({ dir: folder, key: KEY })
  const opened_ms = performance.now() - begun
  let count = 0
  for await (const { records } of journal.readBatches(1)) count += records.length
  const total_ms = performance.now() - begun
  await journal.close()
  rmSync(folder, { recursive: true })
  const figure = {
    name: 'replay',
    group,
    records: count,
    open_ms: Math.round(opened_ms),
    total_ms: Math.round(total_ms),
  }
  replays.push(figure)
  console.log(JSON.stringify({ bench: 'journal', ...figure }))
}
const replays: { name: string; group: number; records: number; open_ms: number; total_ms: number }[] = []

const dir = mkdtempSync(join(process.argv[2] ?? tmpdir(), 'tacit-bench-journal-'))
try {
  for (const group of GROUPS) raw(dir, group)
  const journal = await openJournal({ dir: join(dir, 'journal'), key: KEY })
  journal.signAs(SIGNER)
  for (const group of GROUPS) {
    await settle(journal, join(dir, 'journal'))
    for (const lanes of [1, 2, 4]) await appends(journal, group, lanes)
    await journal.retire(journal.head().seq)
  }
  await journal.close()
  rmSync(join(dir, 'journal'), { recursive: true })
  for (const group of [1, 16, 64]) await replay(dir, group)
} finally {
  rmSync(dir, { recursive: true, force: true })
}
printTable(Object.keys(figures[0] ?? {}), figures.map(Object.values))
printTable(Object.keys(replays[0] ?? {}), replays.map(Object.values))
