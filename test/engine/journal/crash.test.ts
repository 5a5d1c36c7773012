/** A killed writer loses nothing acknowledged and leaves no group half written. */
import { expect, test } from 'bun:test'
import type { Journal, JournalRecord } from '../../../engine/journal/contract'
import { openJournal } from '../../../engine/journal/open_journal'
import { CRASH_KEY, CRASH_SEGMENT_BYTES, decodeMark } from './crash_marks'
import { withFolder } from './folder'

const ROUNDS = Number(process.env['TACIT_CRASH_ROUNDS'] ?? 15)
const SEED = Number(process.env['TACIT_CRASH_SEED'] ?? Math.floor(Math.random() * 2 ** 31))
type Promised = { seq: number; head: string }

/** Runs the writer until it has reported `lines` promises, kills it, and returns all it had reported by then. */
async function writeAndKill(dir: string, seed: number, lines: number): Promise<Promised[]> {
  const script = new URL('./crash_writer.ts', import.meta.url).pathname
  const child = Bun.spawn([process.execPath, script, dir, String(seed)], {
    stdout: 'pipe',
    stderr: 'inherit',
  })
  let text = ''
  const decoder = new TextDecoder()
  for await (const chunk of child.stdout) {
    text += decoder.decode(chunk, { stream: true })
    if (text.split('\n').length > lines) child.kill('SIGKILL')
  }
  await child.exited
  const whole = text.slice(0, text.lastIndexOf('\n') + 1)
  return whole
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const [seq, head] = line.split(' ') as [string, string]
      return { seq: Number(seq), head }
    })
}

async function readFrom(journal: Journal, from_seq: number, head: string): Promise<JournalRecord[]> {
  const found: JournalRecord[] = []
  for await (const { records } of journal.readBatches(from_seq, Uint8Array.fromHex(head)))
    found.push(...records)
  return found
}

/** Every group from the first record on is whole. */
function expectWholeGroups(found: JournalRecord[]): void {
  for (let at = 0; at < found.length; ) {
    const { count } = decodeMark((found[at] as JournalRecord).body)
    for (let index = 0; index < count; index++)
      expect(decodeMark((found[at + index] as JournalRecord).body)).toEqual({ count, index })
    at += count
  }
}

test(`every promised group survives kill -9 and no group is half there (${ROUNDS} rounds, seed ${SEED})`, async () => {
  await withFolder(async (dir) => {
    let end: Promised = { seq: 0, head: '00'.repeat(32) }
    let random = SEED
    for (let round = 0; round < ROUNDS; round++) {
      random = (Math.imul(random, 1_103_515_245) + 12_345) >>> 0
      const promised = await writeAndKill(dir, random, 1 + ((random >>> 8) % 1_500))
      // The process that starts finds exactly the records of the last check.
      expect(promised[0]).toEqual(end)
      const journal = await openJournal({ dir, key: CRASH_KEY, segment_bytes: CRASH_SEGMENT_BYTES })
      try {
        const found = await readFrom(journal, end.seq + 1, end.head)
        const last = promised.at(-1) as Promised
        expect(journal.head().seq).toBeGreaterThanOrEqual(last.seq)
        expect(found.length).toBe(journal.head().seq - end.seq)
        expectWholeGroups(found)
        // The chain passes through the last promised head.
        await readFrom(journal, last.seq + 1, last.head)
        await journal.retire(end.seq)
        end = { seq: journal.head().seq, head: journal.head().head.toHex() }
      } finally {
        await journal.close()
      }
    }
    expect(end.seq).toBeGreaterThan(ROUNDS)
  })
}, 600_000)
