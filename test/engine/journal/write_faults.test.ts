/** A failed write closes the journal permanently. */
import { expect, test } from 'bun:test'
import { CommitQueue } from '../../../engine/journal/commit_queue'
import { JournalClosed } from '../../../engine/journal/contract'
import { encodeGroup } from '../../../engine/journal/frame'
import type { SegmentWriter, SpareSegment } from '../../../engine/journal/segment_writer'
import type { DiskFaults } from '../../kit/venue/failing_disk'
import { all, failure, open, records, SEGMENT_BYTES, SIGNER, withFolder } from './folder'

/** Appends three good groups, then two at once of which the fault takes the first write. */
async function failing(dir: string, faults: DiskFaults): Promise<void> {
  const journal = await open(dir, SEGMENT_BYTES, faults)
  for (let i = 1; i <= 3; i++) await journal.append(records(i, 2, 600))
  const lost = [journal.append(records(4, 2, 600)), journal.append(records(5, 2, 600))]
  for (const refusal of await Promise.all(lost.map(failure))) expect(refusal).toBeInstanceOf(JournalClosed)
  expect(journal.head().seq).toBe(6)
  expect(await failure(journal.append(records(6)))).toBeInstanceOf(JournalClosed)
  expect(await failure(journal.retire(1))).toBeInstanceOf(JournalClosed)
  expect(await failure(all(journal))).toBeInstanceOf(JournalClosed)
  await journal.close()
}

test('a full disk closes the journal for ever, and the half-written group is gone after a restart', async () => {
  await withFolder(async (dir) => {
    await failing(dir, { write_fails_at: 4 })
    const journal = await open(dir)
    expect(journal.head().seq).toBe(6)
    expect((await journal.append(records(7, 1))).seq_last).toBe(7)
    expect((await all(journal)).map(({ type }) => type)).toEqual([1, 1, 2, 2, 3, 3, 0])
    await journal.close()
  })
})

test('a failed sync closes the journal for ever; the group is then wholly there or wholly absent', async () => {
  await withFolder(async (dir) => {
    await failing(dir, { sync_fails_at: 4 })
    const journal = await open(dir)
    const { seq } = journal.head()
    expect([6, 8, 10]).toContain(seq)
    expect((await journal.append(records(7, 1))).seq_last).toBe(seq + 1)
    expect((await all(journal)).length).toBe(seq + 1)
    await journal.close()
  })
})

test('the failure of the very first write leaves an empty journal', async () => {
  await withFolder(async (dir) => {
    const journal = await open(dir, SEGMENT_BYTES, { write_fails_at: 1 })
    const refusal = await failure(journal.append(records(1, 3, 800)))
    expect(refusal).toBeInstanceOf(JournalClosed)
    expect((refusal as Error).message).toContain('ENOSPC')
    const again = await open(dir)
    expect(again.head().seq).toBe(0)
    await again.close()
  })
})

test('a queue whose write failed takes nothing more and has nothing to wait for', async () => {
  const written: number[] = []
  const failed: unknown[] = []
  const end = { seq: 0, head: new Uint8Array(32), frames: 0, offset: 0 }
  const writer = {
    room: 1_000_000,
    position: end,
    signedBy: () => undefined,
    writeFrame(groups: readonly Uint8Array[]) {
      written.push(groups.length)
      throw new Error('EIO')
    },
  } as unknown as SegmentWriter
  const queue = new CommitQueue({
    writer,
    spare: {} as SpareSegment,
    segments: [],
    durable: () => undefined,
    failed: (error) => void failed.push(error),
    replicate: undefined,
  })
  queue.signAs(SIGNER)
  queue.push(encodeGroup(records(1), 1, new Uint8Array(32)))
  while (failed.length === 0) await Bun.sleep(1)
  queue.push(encodeGroup(records(2), 2, new Uint8Array(32)))
  await Bun.sleep(5)
  expect([written, failed.length]).toEqual([[1], 1])
  const waited = Bun.sleep(1_000).then(() => 'waits')
  expect(await Promise.race([queue.drained().then(() => 'drained'), waited])).toBe('drained')
})
