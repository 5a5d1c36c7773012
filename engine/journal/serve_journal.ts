/** Serves the requests of one open journal: only its thread writes its files, so a slow disk does not block the others. */

import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { type CommitQueue, commitQueue, frameBytesMax } from './commit_queue'
import { type Chunk, type OpenRequest, type Reply, type Request, toFailure } from './contract'
import { disk } from './disk'
import { openTail, readSegments, type SegmentReader } from './read_segments'
import { segmentName, syncFolder } from './segment_files'
import type { SegmentHeader } from './segment_header'
import { SegmentWriter, type SpareSegment, spareSegment } from './segment_writer'

type Opened = {
  options: OpenRequest
  segments: SegmentHeader[]
  writer: SegmentWriter
  spare: SpareSegment
  queue: CommitQueue
}
/**
 * Returns the handler of requests; the first one opens the journal.
 * @param reply the bytes of `moved` belong to the receiver afterwards
 */
export function serveJournal(
  reply: (message: Reply, moved?: Uint8Array[]) => void,
): (request: Request) => void {
  let opened: Opened | undefined
  const readers = new Map<number, SegmentReader>()

  function open(options: OpenRequest): void {
    const { dir, key, segment_bytes } = options
    const { segments, end } = openTail(dir, key)
    const last = segments.at(-1)
    const writer = new SegmentWriter(
      { dir, key, segment_bytes, salt: () => new Uint8Array(randomBytes(32)) },
      last !== undefined && end !== undefined ? { number: last.number, end } : undefined,
      frameBytesMax(),
    )
    const spare = spareSegment(dir, segment_bytes)
    const queue = commitQueue(
      writer,
      spare,
      segments,
      (proofs) => reply({ op: 'durable', proofs }, [proofs]),
      (error) => reply({ op: 'failed', failure: toFailure(error) }),
    )
    opened = { options, segments, writer, spare, queue }
    const { seq, head } = end ?? { seq: 0, head: new Uint8Array(32) }
    reply({ op: 'opened', seq, head: new Uint8Array(head), first_seq: (segments[0]?.seq ?? 0) + 1 })
    spare.begin()
  }

  /** Oldest first, each deletion durable before the next, so that no crash leaves a gap. */
  function retire({ options, segments }: Opened, before_seq: number): void {
    for (;;) {
      const [first, second] = segments
      if (first === undefined || second === undefined || second.seq >= before_seq) break
      disk.rmSync(join(options.dir, segmentName(first.number)))
      syncFolder(options.dir)
      segments.shift()
    }
    reply({ op: 'retired', first_seq: (segments[0]?.seq ?? 0) + 1 })
  }

  function read(journal: Opened, request: Extract<Request, { op: 'read' }>): void {
    const end = journal.writer.position
    const reader: SegmentReader =
      end === undefined
        ? { next: () => nothing(), stop: () => undefined }
        : readSegments(journal.options, [...journal.segments], end, request.from_seq, request.expected)
    readers.set(request.reader, reader)
  }

  function readNext(id: number): void {
    const chunk = readers.get(id)?.next() ?? nothing()
    if (chunk.last) readers.delete(id)
    reply({ op: 'chunk', reader: id, ...chunk }, [chunk.groups])
  }

  function readStop(id: number): void {
    readers.get(id)?.stop()
    readers.delete(id)
  }

  function readFailed(reader: number, error: unknown): void {
    readStop(reader)
    reply({ op: 'read_failed', reader, failure: toFailure(error) })
  }

  async function close(journal: Opened): Promise<void> {
    await journal.spare.stop(journal.queue.drained())
    journal.writer.close()
    reply({ op: 'closed' })
  }

  function handle(request: Exclude<Request, OpenRequest>, journal: Opened): void {
    switch (request.op) {
      case 'append':
        journal.queue.push(request.group)
        break
      case 'sign_as':
        journal.queue.signAs(request.signer)
        break
      case 'retire':
        retire(journal, request.before_seq)
        break
      case 'read':
        read(journal, request)
        break
      case 'read_next':
        readNext(request.reader)
        break
      case 'read_stop':
        readStop(request.reader)
        break
      case 'close':
        void close(journal)
    }
  }

  return (request) => {
    try {
      if (request.op === 'open') open(request)
      else handle(request, opened as Opened)
    } catch (error) {
      if (request.op === 'open') reply({ op: 'refused', failure: toFailure(error) })
      else if (request.op === 'read' || request.op === 'read_next') readFailed(request.reader, error)
      else reply({ op: 'failed', failure: toFailure(error) })
    }
  }
}

const nothing = (): Chunk => ({ groups: new Uint8Array(0), last: true, from: undefined })
