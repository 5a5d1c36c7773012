/** Groups come back as they were appended, across segments and reopening. */
import { expect, spyOn, test } from 'bun:test'
import {
  JournalClosed,
  JournalDamaged,
  JournalLocked,
  type JournalRecord,
  type Reply,
  type SignedFrame,
  type SignedGroup,
} from '../../../engine/journal/contract'
import { pointAfter, readRecords, splitGroups } from '../../../engine/journal/frame'
import { JournalServer } from '../../../engine/journal/journal_server'
import { openJournal } from '../../../engine/journal/open_journal'
import { readSegments, recover } from '../../../engine/journal/read_segments'
import * as walk_segment from '../../../engine/journal/walk_segment'
import { LIMITS } from '../../../engine/limits'
import { RECEIPT_BODY } from '../../../protocol/bodies/statements'
import { verifySignature } from '../../../protocol/ed25519'
import {
  all,
  failure,
  KEY,
  load,
  open,
  readFolder,
  records,
  recordsOf,
  SEGMENT_BYTES,
  SIGNER,
  segmentFiles,
  withFolder,
  write,
} from './folder'

test('appended records are read back in order, also after a restart', async () => {
  await withFolder(async (dir) => {
    const groups = [records(1), records(2, 5), records(3, 2, 0), records(4, 3, 900)]
    const ends = await write(dir, groups)
    expect(ends.map(({ seq_last }) => seq_last)).toEqual([1, 6, 8, 11])

    const journal = await open(dir)
    const expected = groups.flat().map((record, i) => ({ ...record, seq: i + 1 }))
    expect(await all(journal)).toEqual(expected)
    expect(await all(journal, 7)).toEqual(expected.slice(6))
    expect(await all(journal, 12)).toEqual([])
    expect(journal.head()).toEqual({ seq: 11, head: ends[3]?.head as Uint8Array })
    await journal.close()
  })
})

test('an empty journal reads as nothing and is at seq 0 with a zero head', async () => {
  await withFolder(async (dir) => {
    const journal = await open(dir)
    expect(await all(journal)).toEqual([])
    expect(journal.head()).toEqual({ seq: 0, head: new Uint8Array(32) })
    expect(journal.firstSeq()).toBe(1)
    await journal.close()
  })
})

test('groups appended together are written together and each keeps its own head', async () => {
  await withFolder(async (dir) => {
    const journal = await open(dir, 64 * 1024)
    const ends = await Promise.all([1, 2, 3, 4, 5].map((mark) => journal.append(records(mark, mark))))
    expect(journal.pending()).toBe(0)
    expect(ends.map(({ seq_last }) => seq_last)).toEqual([1, 3, 6, 10, 15])
    expect(new Set(ends.map(({ head }) => head.toHex())).size).toBe(5)
    expect(ends.map(({ signature }) => signature.length)).toEqual([64, 64, 64, 64, 64])
    expect(journal.head()).toEqual({ seq: 15, head: ends[4]?.head as Uint8Array })
    for (const { seq_last, head } of ends) {
      let next = seq_last
      for await (const record of recordsOf(journal, seq_last + 1, head)) expect(record.seq).toBe(++next)
      expect(next).toBe(15)
    }
    await journal.close()
    expect(recover(dir, KEY).end!.frames).toBeLessThan(5)
  })
})

test('the same content at the same place has another head: a published head confirms no guess', async () => {
  const heads: string[] = []
  for (let i = 0; i < 2; i++)
    await withFolder(async (dir) => {
      heads.push((await write(dir, [records(1)]))[0]?.head.toHex() as string)
    })
  expect(heads[0]).not.toBe(heads[1] as string)
})

test('records go on over the ends of segments and over restarts', async () => {
  await withFolder(async (dir) => {
    const groups = Array.from({ length: 60 }, (_, i) => records(i, 1 + (i % 4), 300))
    for (let at = 0; at < 60; at += 20) await write(dir, groups.slice(at, at + 20))
    expect(segmentFiles(dir).length).toBeGreaterThan(3)
    const journal = await open(dir)
    expect(await all(journal)).toEqual(groups.flat().map((record, i) => ({ ...record, seq: i + 1 })))
    await journal.close()
  })
})

test('reading may follow on from a chain head and from no other', async () => {
  await withFolder(async (dir) => {
    const ends = await write(dir, [records(1, 2), records(2, 2), records(3, 2)])
    const journal = await open(dir)
    const read = async (from_seq: number, head: Uint8Array) => {
      let count = 0
      for await (const { records } of journal.readBatches(from_seq, head)) count += records.length
      return count
    }
    expect(await read(5, ends[1]?.head as Uint8Array)).toBe(2)
    expect(await read(7, ends[2]?.head as Uint8Array)).toBe(0)
    expect(await read(1, new Uint8Array(32))).toBe(6)
    const refusal = await failure(read(5, ends[0]?.head as Uint8Array))
    expect(refusal).toBeInstanceOf(JournalDamaged)
    expect((refusal as JournalDamaged).seq).toBe(5)
    expect(await failure(read(4, ends[1]?.head as Uint8Array))).toBeInstanceOf(JournalDamaged)
    await journal.close()
  })
})

test('a reader that stops early leaves the journal usable', async () => {
  await withFolder(async (dir) => {
    const journal = await open(dir)
    for (let i = 0; i < 30; i++) await journal.append(records(i, 2, 400))
    for await (const record of recordsOf(journal)) if (record.seq === 3) break
    expect((await journal.append(records(99))).seq_last).toBe(61)
    expect((await all(journal)).length).toBe(61)
    await journal.close()
  })
})

test('an empty or oversized group is refused and harms nothing', async () => {
  await withFolder(async (dir) => {
    const journal = await open(dir)
    expect(() => journal.append([])).toThrow(RangeError)
    expect(() => journal.append(records(1, 1, SEGMENT_BYTES))).toThrow(RangeError)
    const largest = SEGMENT_BYTES - 512 - 64 - 56 - 28 - 64
    expect((await journal.append(records(1, 1, largest))).seq_last).toBe(1)
    expect(() => journal.append(records(1, 1, largest + 1))).toThrow(RangeError)
    await journal.close()
  })
})

test('the largest group a write takes is written and read', async () => {
  await withFolder(async (dir) => {
    const journal = await open(dir, 8 * 1024 * 1024)
    const body = LIMITS.journal_write_bytes_max - 56 - 28 - 64
    const ends = await Promise.all([journal.append(records(1, 1, body)), journal.append(records(2, 1, 10))])
    expect(ends.map(({ seq_last }) => seq_last)).toEqual([1, 2])
    expect((await all(journal)).map((record) => record.body.length)).toEqual([body, 10])
    await journal.close()
  })
})

test('every group is stored with the signature of its author, whose certificate begins each segment', async () => {
  await withFolder(async (dir) => {
    const root = new Uint8Array(32).fill(9)
    let journal = await open(dir, 4 * 1024)
    const ends = [await journal.append(records(1, 2)), await journal.append(records(2), root)]
    for (let i = 3; i < 12; i++) ends.push(await journal.append(records(i, 2, 300)))
    await journal.close()
    journal = await open(dir, 4 * 1024)
    const later = { ...SIGNER, epoch: 5, certificate: new Uint8Array(64).fill(6) }
    journal.signAs(later)
    ends.push(await journal.append(records(12)))
    const stored: SignedGroup[] = []
    for await (const groups of journal.readGroups({ seq: 0, head: new Uint8Array(32) }))
      stored.push(...groups)
    await journal.close()
    expect(segmentFiles(dir).length).toBeGreaterThan(3)
    expect(stored.map(({ seq, head, signature }) => ({ seq_last: seq, head, signature }))).toEqual(ends)
    stored.forEach(({ seq, head, root: stated, signature, author }, at) => {
      const { epoch, certificate } = at === stored.length - 1 ? later : SIGNER
      expect(author).toEqual({ epoch, statement_key: SIGNER.statement_key, certificate })
      expect(stated).toEqual(at === 1 ? root : new Uint8Array(32))
      const body = RECEIPT_BODY.encode({
        venue: SIGNER.venue,
        epoch: BigInt(epoch),
        seq: BigInt(seq),
        head,
        root: stated,
      })
      expect(verifySignature(signature, body, SIGNER.statement_key)).toBe(true)
    })
  })
})

test('groups may be read from any of their ends on, and from no other place', async () => {
  await withFolder(async (dir) => {
    const ends = await write(dir, [records(1, 2), records(2, 2), records(3, 2)])
    const journal = await open(dir)
    const read = async (seq: number, head: Uint8Array) => {
      const found: number[] = []
      for await (const groups of journal.readGroups({ seq, head }))
        found.push(...groups.map((one) => one.seq))
      return found
    }
    expect(await read(2, ends[0]!.head)).toEqual([4, 6])
    expect(await read(6, ends[2]!.head)).toEqual([])
    expect(await failure(read(2, ends[1]!.head))).toBeInstanceOf(JournalDamaged)
    expect(await failure(read(3, ends[0]!.head))).toBeInstanceOf(JournalDamaged)
    await journal.close()
  })
})

test('without an author nothing is appended, and none is replaced while a group is pending', async () => {
  await withFolder(async (dir) => {
    const journal = await openJournal({ dir, key: KEY, segment_bytes: SEGMENT_BYTES })
    expect(() => journal.append(records(1))).toThrow('no author')
    journal.signAs(SIGNER)
    const pending = journal.append(records(1))
    expect(() => journal.signAs(SIGNER)).toThrow('pending')
    await pending
    await journal.close()
  })
})

test('retiring deletes whole segments below a seq and never the newest', async () => {
  await withFolder(async (dir) => {
    const journal = await open(dir)
    for (let i = 0; i < 60; i++) await journal.append(records(i, 1, 900))
    const before = segmentFiles(dir).length
    await journal.retire(1)
    expect(segmentFiles(dir).length).toBe(before)
    await journal.retire(30)
    const first = journal.firstSeq()
    expect(first).toBeGreaterThan(1)
    expect(first).toBeLessThanOrEqual(30)
    expect((await all(journal, first)).map(({ seq }) => seq)).toEqual(
      Array.from({ length: 61 - first }, (_, i) => first + i),
    )
    expect(await failure(all(journal, first - 1))).toBeInstanceOf(RangeError)
    await journal.retire(1_000)
    expect(segmentFiles(dir).length).toBe(1)
    expect((await journal.append(records(99))).seq_last).toBe(61)
    await journal.close()
    const again = await open(dir)
    expect(again.head().seq).toBe(61)
    await again.close()
  })
})

test('a folder is open once, in this process and between processes', async () => {
  await withFolder(async (dir) => {
    const journal = await open(dir)
    expect(await failure(open(dir))).toBeInstanceOf(JournalLocked)
    const script = `
      import { openJournal } from ${JSON.stringify(new URL('../../../engine/journal/open_journal.ts', import.meta.url).pathname)}
      await openJournal({ dir: ${JSON.stringify(dir)}, key: new Uint8Array(32).fill(7), segment_bytes: 16384 })
        .then(() => console.log('open'), (error) => console.log(error.name))
      process.exit(0)`
    const child = Bun.spawn([process.execPath, '-e', script], { stdout: 'pipe', stderr: 'inherit' })
    expect((await new Response(child.stdout).text()).trim()).toBe('JournalLocked')
    await journal.close()
    await (await open(dir)).close()
  })
})

test('a closed journal takes nothing, and close waits for appended groups', async () => {
  await withFolder(async (dir) => {
    const journal = await open(dir)
    const last = journal.append(records(1, 3))
    await journal.close()
    expect((await last).seq_last).toBe(3)
    expect(await failure(journal.append(records(2)))).toBeInstanceOf(JournalClosed)
    await journal.close()
  })
})

test('options out of range are refused', async () => {
  await withFolder(async (dir) => {
    expect(await failure(openJournal({ dir, key: new Uint8Array(31) }))).toBeInstanceOf(RangeError)
    expect(await failure(openJournal({ dir, key: KEY, segment_bytes: 1000 }))).toBeInstanceOf(RangeError)
    const { journal_segment_bytes_min: least, journal_segment_bytes_max: most } = LIMITS
    for (const segment_bytes of [512, least - 512, most + 512])
      expect(await failure(openJournal({ dir, key: KEY, segment_bytes }))).toBeInstanceOf(RangeError)
    for (const segment_bytes of [least, most])
      await (await openJournal({ dir, key: KEY, segment_bytes })).close()
  })
})

test('a read from the middle of a reopened segment begins at a verified place and checks the head before it', async () => {
  await withFolder(async (dir) => {
    const groups = Array.from({ length: 24 }, (_, i) => records(i, 1, 200_000))
    const ends = await write(dir, groups, 8 * 1024 * 1024)
    const { segments, end, starts } = recover(dir, KEY)
    expect(starts.map(({ at }) => ends.find(({ seq_last }) => seq_last === at.seq)?.head)).toEqual(
      starts.map(({ at }) => at.head),
    )
    expect(starts.length).toBeGreaterThan(2)
    const late = starts.at(-1)!.at.seq + 1
    const read = (from: typeof starts) => {
      const found: JournalRecord[] = []
      const reader = readSegments({ dir, key: KEY }, segments, end!, late, [], from)
      for (let last = false; !last; ) {
        const chunk = reader.next()
        last = chunk.last
        readRecords(chunk.groups, late, found)
        if (chunk.from !== undefined) expect(chunk.from.point.head).toEqual(ends[late - 2]!.head)
      }
      return found
    }
    expect(read(starts)).toEqual(read([]))

    const journal = await open(dir, 8 * 1024 * 1024)
    const seqs = async (from_seq: number, head: Uint8Array) =>
      (await Array.fromAsync(recordsOf(journal, from_seq, head))).map(({ seq }) => seq)
    for (const { seq_last, head } of ends) {
      expect(await seqs(seq_last + 1, head)).toEqual(groups.map((_, i) => i + 1).slice(seq_last))
      const other = new Uint8Array(head)
      other[0]! ^= 1
      expect(await failure(seqs(seq_last + 1, other))).toBeInstanceOf(JournalDamaged)
    }
    await journal.close()
  })
})

test('what a read has verified, of any segment, is not verified again by the next', async () => {
  await withFolder(async (dir) => {
    await write(
      dir,
      Array.from({ length: 24 }, (_, i) => records(i, 1, 400_000)),
      4 * 1024 * 1024,
    )
    const { segments, end } = recover(dir, KEY)
    expect(segments.length).toBeGreaterThan(2)
    const starts: Parameters<typeof readSegments>[5] = []
    const framesOf = (from_seq: number) => {
      const frames = spyOn(walk_segment, 'readFrame')
      const reader = readSegments({ dir, key: KEY }, segments, end!, from_seq, [], starts)
      const found: JournalRecord[] = []
      for (let last = false; !last; ) {
        const chunk = reader.next()
        last = chunk.last
        readRecords(chunk.groups, from_seq, found)
      }
      expect(found.map(({ seq }) => seq)).toEqual(
        Array.from({ length: 25 - from_seq }, (_, i) => from_seq + i),
      )
      const { length } = frames.mock.calls
      frames.mockRestore()
      return length
    }
    const late = segments[1]!.seq
    expect(framesOf(late)).toBe(24)
    expect(framesOf(late)).toBeLessThan(24 - late + 6)
    expect(framesOf(1)).toBe(24)
    expect(starts).toEqual(starts.toSorted((a, b) => a.at.seq - b.at.seq))
    expect(new Set(starts.map(({ segment }) => segment)).size).toBe(segments.length)
  })
})

test('a segment that is retired while it is read leaves no verified place, nor keeps those of later ones', async () => {
  await withFolder(async (dir) => {
    const segment_bytes = 2 * 1024 * 1024
    await write(
      dir,
      Array.from({ length: 16 }, (_, i) => records(i, 1, 400_000)),
      segment_bytes,
    )
    const { segments } = recover(dir, KEY)
    expect(segments.length).toBeGreaterThan(3)
    const replies: Reply[] = []
    const server = new JournalServer((reply) => void replies.push(reply))
    server.receive({ op: 'open', dir, key: KEY, segment_bytes })
    const readAll = (reader: number, from_seq: number) => {
      server.receive({ op: 'read', reader, from_seq, expected: [] })
      do server.receive({ op: 'read_next', reader })
      while (replies.at(-1)?.op === 'chunk' && !(replies.at(-1) as { last: boolean }).last)
      expect(replies.at(-1)?.op).toBe('chunk')
    }
    readAll(1, segments[1]!.seq + 1)
    server.receive({ op: 'read', reader: 2, from_seq: 1, expected: [] })
    server.receive({ op: 'read_next', reader: 2 })
    // Its reader has the first segment in memory.
    server.receive({ op: 'retire', before_seq: segments[1]!.seq + 1 })
    server.receive({ op: 'read_next', reader: 2 })
    server.receive({ op: 'read_stop', reader: 2 })
    server.receive({ op: 'retire', before_seq: segments[2]!.seq + 1 })
    const kept = server['opened']!.starts.map(({ segment }) => segment)
    expect(kept).toEqual(kept.toSorted((a, b) => a - b))
    expect(kept[0]).toBe(segments[2]!.number)
    server.receive({ op: 'close' })
    await Bun.sleep(1)
  })
})

test('each append is timed, and each sync, which several share', async () => {
  await withFolder(async (dir) => {
    const journal = await open(dir, 64 * 1024)
    await journal.append(records(1))
    await Promise.all([2, 3, 4, 5].map((mark) => journal.append(records(mark))))
    const { append, sync } = journal.latency
    const of = (histogram: typeof append) => histogram.cumulative().map(({ count }) => count)
    expect(of(append).at(-1)).toBe(5)
    expect(of(append)).toEqual(of(append).toSorted((a, b) => a - b))
    expect(of(sync).at(-1)).toBeGreaterThanOrEqual(2)
    expect(of(sync).at(-1)).toBeLessThanOrEqual(5)
    // A duration counts in the first bucket that holds it and in each wider one.
    const before = of(append)
    append.observe(300)
    const grown = of(append).map((count, at) => count - before[at]!)
    const bounds = append.cumulative().map(({ le }) => le)
    expect(bounds.filter((_, at) => grown[at] === 1)).toEqual(['0.5', '1', '5', '+Inf'])
    await journal.close()
  })
})

test('one group more than may wait for the disk closes the journal; earlier groups are there at the next opening', async () => {
  await withFolder(async (dir) => {
    const journal = await open(dir, 1024 * 1024)
    const first = await journal.append(records(1))
    // One turn of the event loop: no answer of the disk arrives in it.
    const waiting = Array.from({ length: LIMITS.journal_pending_groups_max }, () =>
      journal.append(records(2)).catch((error) => error),
    )
    expect(journal.pending()).toBe(LIMITS.journal_pending_groups_max)
    const retired = failure(journal.retire(1))
    const beyond = await failure(journal.append(records(3)))
    expect(beyond).toBeInstanceOf(JournalClosed)
    expect(await retired).toBe(beyond)
    expect(new Set(await Promise.all(waiting))).toEqual(new Set([beyond]))
    expect(await failure(journal.append(records(4)))).toBe(beyond)

    const again = await open(dir, 1024 * 1024)
    const { seq } = again.head()
    expect(seq).toBeGreaterThanOrEqual(1)
    expect(seq).toBeLessThanOrEqual(1 + LIMITS.journal_pending_groups_max)
    const kept = await all(again)
    expect(kept.map((record) => record.seq)).toEqual(Array.from({ length: seq }, (_, i) => i + 1))
    expect(kept[0]).toEqual({ ...records(1)[0]!, seq: first.seq_last })
    await again.close()
  })
}, 120_000)

/** The groups that a leader passes on of the first segment of its folder, each for itself. */
function framesOf(dir: string): SignedFrame[] {
  const { segments, end } = recover(dir, KEY)
  const { groups, from } = readSegments({ dir, key: KEY }, segments, end!, 1, []).next()
  let { point } = from!
  return splitGroups(groups).map((group) => {
    const before = point
    point = pointAfter(before, group)
    return { author: from!.author, groups: [group], from: before, to: point }
  })
}

test('groups that another instance signed make the same journal, from its first one on', async () => {
  await withFolder(async (leader) => {
    await withFolder(async (dir) => {
      const ends = await write(leader, [records(1), records(2, 5), records(3)])
      const journal = await openJournal({ dir, key: KEY, segment_bytes: SEGMENT_BYTES })
      const frames = framesOf(leader)
      for (const [at, frame] of frames.entries()) expect(await journal.adopt(frame)).toEqual(ends[at]!)
      expect(frames).toHaveLength(3)
      expect(() => journal.adopt(frames[2]!)).toThrow('the journal continues at seq 8')
      await journal.close()
      expect(readFolder(dir)).toEqual(readFolder(leader))
    })
  })
})

test('of a reader that has ended nothing is kept', async () => {
  await withFolder(async (dir) => {
    await write(dir, [records(1, 3)])
    const replies: Reply[] = []
    const server = new JournalServer((reply) => void replies.push(reply))
    server.receive({ op: 'open', dir, key: KEY, segment_bytes: SEGMENT_BYTES })
    server.receive({ op: 'read', reader: 1, from_seq: 1, expected: [] })
    for (let at = 0; at < 2; at++) server.receive({ op: 'read_next', reader: 1 })
    expect(replies.slice(1)).toMatchObject([
      { op: 'chunk', last: true, end: { seq: 3 } },
      { op: 'chunk', last: true, end: { seq: 0 } },
    ])
    server.receive({ op: 'close' })
    while (replies.at(-1)!.op !== 'closed') await Bun.sleep(5)
  })
})

test('groups that arrive together and do not fit into one segment go into two', async () => {
  await withFolder(async (dir) => {
    const journal = await open(dir)
    await Promise.all([1, 2, 3].map((mark) => journal.append(records(mark, 1, 0.6 * SEGMENT_BYTES))))
    await journal.close()
    expect(segmentFiles(dir)).toHaveLength(3)
    for (const path of segmentFiles(dir)) expect(load(path).length).toBeLessThanOrEqual(SEGMENT_BYTES)
    expect(readFolder(dir).seq).toBe(3)
  })
})
