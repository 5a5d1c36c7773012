/** A journal whose disk has no room for its next segment waits for it, and loses nothing that it acknowledged. */

import { afterEach, expect, test } from 'bun:test'
import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { CommitQueue } from '../../../engine/journal/commit_queue'
import { JournalClosed, type Reply, type Request } from '../../../engine/journal/contract'
import { type Disk, disk } from '../../../engine/journal/disk'
import { encodeGroup } from '../../../engine/journal/frame'
import { JournalServer } from '../../../engine/journal/journal_server'
import { openJournal } from '../../../engine/journal/open_journal'
import { type SegmentWriter, type SpareSegment, spareSegment } from '../../../engine/journal/segment_writer'
import { LIMITS } from '../../../engine/limits'
import { SimulatedDisk } from '../../kit/simulated_disk'
import type { DiskFaults } from '../../kit/venue/failing_disk'
import { all, failure, KEY, open, records, SEGMENT_BYTES, SIGNER, withFolder } from './folder'

const real = { ...disk }
afterEach(() => void Object.assign(disk, real))

type Created = Awaited<ReturnType<Disk['create']>>

/** A journal in this thread, on a simulated disk whose new files `write` writes. */
function opened() {
  const simulated = new SimulatedDisk(() => 0)
  simulated.start()
  Object.assign(disk, simulated.disk)
  const replies: Reply[] = []
  const server = new JournalServer((reply) => void replies.push(reply))
  const serve = (request: Request) => server.receive(request)
  const open = () => serve({ op: 'open', dir: '/journal', key: KEY, segment_bytes: 4_096 })
  let seq = 0
  const append = () =>
    serve({ op: 'append', group: encodeGroup(records(1, 1, 900), ++seq, new Uint8Array(32)) })
  const durable = () =>
    replies.reduce((sum, reply) => sum + (reply.op === 'durable' ? reply.proofs.length / 96 : 0), 0)
  const has = (op: Reply['op']) => replies.some((reply) => reply.op === op)
  return { simulated, serve, open, append, durable, has, replies }
}

/** New files reject their writes with this code, until it is undefined. */
function refusing(code: () => string | undefined): void {
  const { create } = disk
  disk.create = async (path) => {
    const file = await create(path)
    const write: Created['write'] = (bytes, from, length, at) => {
      const failed = code()
      if (failed === undefined) return file.write(bytes, from, length, at)
      return Promise.reject(Object.assign(new Error(failed), { code: failed }))
    }
    return { ...file, write }
  }
}

const until = async (holds: () => boolean) => {
  while (!holds()) await Bun.sleep(1)
}
const turns = async (count: number) => {
  for (let i = 0; i < count; i++) await new Promise<void>((resolve) => setImmediate(resolve))
}

test('groups wait for space, and are written once there is some', async () => {
  const { serve, open, append, durable, has } = opened()
  let code: string | undefined
  refusing(() => code)
  open()
  serve({ op: 'sign_as', signer: SIGNER })
  append()
  await until(() => durable() === 1)
  // The spare that is ready by now gives the journal one more segment.
  code = 'ENOSPC'
  for (let i = 0; i < 9; i++) append()
  await turns(20)
  const written = durable()
  expect(written).toBeLessThan(10)
  expect(has('failed')).toBe(false)
  expect(disk.exists('/journal/spare.unfinished')).toBe(false)
  code = undefined
  await until(() => durable() === 10)
  serve({ op: 'close' })
  await until(() => has('closed'))
})

test('a spare that an earlier process finished is used again, and one of another size is replaced', async () => {
  await withFolder(async (dir) => {
    const spare = join(dir, 'spare.zeros')
    const made = { ino: 0, size: 0 }
    for (const [segment_bytes, is_kept] of [
      [8_192, false],
      [8_192, true],
      [4_096, false],
    ] as const) {
      const journal = await openJournal({ dir, key: KEY, segment_bytes })
      await until(() => existsSync(spare) && statSync(spare).size === segment_bytes)
      await journal.close()
      const { ino, size } = statSync(spare)
      expect(size).toBe(segment_bytes)
      expect(ino === made.ino).toBe(is_kept)
      Object.assign(made, { ino, size })
    }
  })
})

test('a spare is made with rests, unless the current segment is more than half as full', async () => {
  const simulated = new SimulatedDisk(() => 0)
  simulated.start()
  Object.assign(disk, simulated.disk)
  let pieces = 0
  const { create } = disk
  disk.create = async (path) => {
    const file = await create(path)
    const datasync = () => {
      pieces++
      return file.datasync()
    }
    return { ...file, datasync }
  }
  let filled = 0
  const spare = spareSegment('/journal', 40 * LIMITS.journal_spare_piece_bytes, () => filled)
  spare.begin()
  await until(() => pieces > 0)
  await turns(10)
  expect(pieces).toBeLessThan(20)
  filled = 0.25
  // The rest that is under way.
  await Bun.sleep(2 * LIMITS.journal_spare_rest_ms)
  await turns(10)
  expect(pieces).toBeGreaterThan(20)
  expect(pieces).toBeLessThan(38)
  filled = 1
  await Bun.sleep(2 * LIMITS.journal_spare_rest_ms)
  await turns(10)
  expect(pieces).toBe(40)
  await spare.ready()
})

test('a spare that failed for another reason is made again when it is needed', async () => {
  const { serve, open, append, durable, has } = opened()
  let code: string | undefined = 'EIO'
  refusing(() => code)
  open()
  await turns(5)
  code = undefined
  serve({ op: 'sign_as', signer: SIGNER })
  append()
  await until(() => durable() === 1 || has('failed'))
  expect(durable()).toBe(1)
})

test('an error that is not a lack of space closes the journal when the spare is needed', async () => {
  const { serve, open, append, has } = opened()
  refusing(() => 'EIO')
  open()
  serve({ op: 'sign_as', signer: SIGNER })
  append()
  await until(() => has('failed'))
})

test('a close does not wait for space', async () => {
  const { serve, open, append, durable, has } = opened()
  refusing(() => 'ENOSPC')
  open()
  serve({ op: 'sign_as', signer: SIGNER })
  append()
  await turns(5)
  serve({ op: 'close' })
  await until(() => has('closed'))
  expect(has('failed')).toBe(true)
  expect(durable()).toBe(0)
})

test('a disk that takes no byte of a write closes the journal, and one that takes some is written to again', async () => {
  const { simulated, serve, open, append, durable, has } = opened()
  open()
  serve({ op: 'sign_as', signer: SIGNER })
  append()
  await until(() => durable() === 1)
  const { write } = simulated.disk
  disk.write = (fd, bytes, from, length, at) => write(fd, bytes, from, Math.min(length, 100), at)
  append()
  await until(() => durable() === 2)
  disk.write = () => 0
  append()
  await until(() => has('failed'))
  expect(durable()).toBe(2)
})

test('a read-only disk is named at the opening, and nothing is changed', () => {
  const { open, replies } = opened()
  disk.sync = () => {
    throw Object.assign(new Error('EROFS: read-only file system'), { code: 'EROFS' })
  }
  open()
  expect(replies).toMatchObject([{ op: 'refused', failure: { message: 'EROFS: read-only file system' } }])
})

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

test('a full disk closes the journal for good, and the half-written group is gone after a restart', async () => {
  await withFolder(async (dir) => {
    await failing(dir, { write_fails_at: 4 })
    const journal = await open(dir)
    expect(journal.head().seq).toBe(6)
    expect((await journal.append(records(7, 1))).seq_last).toBe(7)
    expect((await all(journal)).map(({ type }) => type)).toEqual([1, 1, 2, 2, 3, 3, 0])
    await journal.close()
  })
})

test('a failed sync closes the journal for good; the group is then wholly there or wholly absent', async () => {
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
