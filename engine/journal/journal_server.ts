/** Serves the requests of one open journal: only its thread writes its files, so a slow disk does not block the others. */

import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { CommitQueue, frameBytesMax, type Replicate } from './commit_queue'
import { type Chunk, type OpenRequest, type Reply, type Request, toFailure } from './contract'
import { disk } from './disk'
import { openTail, readSegments, type SegmentReader, type Start } from './read_segments'
import { segmentName, syncFolder } from './segment_files'
import type { SegmentHeader } from './segment_header'
import { SegmentWriter, type SpareSegment, spareSegment } from './segment_writer'

type Opened = {
  options: OpenRequest
  segments: SegmentHeader[]
  starts: Start[]
  writer: SegmentWriter
  spare: SpareSegment
  queue: CommitQueue
}
/** The first request opens the journal. */
export class JournalServer {
  private opened: Opened | undefined
  private readonly readers = new Map<number, SegmentReader>()

  /** @param reply the bytes of `moved` belong to the receiver afterwards */
  constructor(
    private readonly reply: (message: Reply, moved?: Uint8Array[]) => void,
    private readonly replicate?: Replicate,
  ) {}

  private open(options: OpenRequest): void {
    const { dir, key, segment_bytes } = options
    const { segments, end, starts } = openTail(dir, key)
    const last = segments.at(-1)
    const writer = new SegmentWriter(
      { dir, key, segment_bytes, salt: () => new Uint8Array(randomBytes(32)) },
      last !== undefined && end !== undefined ? { number: last.number, end } : undefined,
      frameBytesMax(),
    )
    const spare = spareSegment(dir, segment_bytes, () => writer.filled)
    const queue = new CommitQueue({
      writer,
      spare,
      segments,
      durable: (proofs, sync_ms) => this.reply({ op: 'durable', proofs, sync_ms }, [proofs]),
      failed: (error) => this.reply({ op: 'failed', failure: toFailure(error) }),
      replicate: this.replicate,
    })
    this.opened = { options, segments, starts, writer, spare, queue }
    const { seq, head } = end ?? { seq: 0, head: new Uint8Array(32) }
    this.reply({ op: 'opened', seq, head: new Uint8Array(head), first_seq: (segments[0]?.seq ?? 0) + 1 })
    spare.begin()
  }

  /** Oldest first, each deletion durable before the next, so that no crash leaves a gap. */
  private retire({ options, segments, starts }: Opened, before_seq: number): void {
    for (;;) {
      const [first, second] = segments
      if (first === undefined || second === undefined || second.seq >= before_seq) break
      disk.rmSync(join(options.dir, segmentName(first.number)))
      syncFolder(options.dir)
      segments.shift()
      // Also of earlier segments, which a read that began before their retirement may have added since.
      while (starts[0] !== undefined && starts[0].segment <= first.number) starts.shift()
    }
    this.reply({ op: 'retired', first_seq: (segments[0]?.seq ?? 0) + 1 })
  }

  private read(
    { options, segments, starts, writer }: Opened,
    { reader: id, from_seq, expected }: Extract<Request, { op: 'read' }>,
  ): void {
    const end = writer.position
    const reader: SegmentReader =
      end === undefined
        ? { next: () => nothing(), stop: () => undefined }
        : readSegments(options, [...segments], end, from_seq, expected, starts)
    this.readers.set(id, reader)
  }

  private readNext(id: number): void {
    const chunk = this.readers.get(id)?.next() ?? nothing()
    if (chunk.last) this.readers.delete(id)
    this.reply({ op: 'chunk', reader: id, ...chunk }, [chunk.groups])
  }

  private readStop(id: number): void {
    this.readers.get(id)?.stop()
    this.readers.delete(id)
  }

  private readFailed(reader: number, error: unknown): void {
    this.readStop(reader)
    this.reply({ op: 'read_failed', reader, failure: toFailure(error) })
  }

  private async close(journal: Opened): Promise<void> {
    await journal.spare.stop(journal.queue.drained())
    journal.writer.close()
    this.reply({ op: 'closed' })
  }

  private handle(request: Exclude<Request, OpenRequest>, journal: Opened): void {
    switch (request.op) {
      case 'append':
        journal.queue.push(request.group)
        break
      case 'adopt':
        journal.queue.adopt(request.frame)
        break
      case 'sign_as':
        journal.queue.signAs(request.signer)
        break
      case 'retire':
        this.retire(journal, request.before_seq)
        break
      case 'read':
        this.read(journal, request)
        break
      case 'read_next':
        this.readNext(request.reader)
        break
      case 'read_stop':
        this.readStop(request.reader)
        break
      case 'close':
        void this.close(journal)
    }
  }

  receive(request: Request): void {
    try {
      if (request.op === 'open') this.open(request)
      else this.handle(request, this.opened as Opened)
    } catch (error) {
      if (request.op === 'open') this.reply({ op: 'refused', failure: toFailure(error) })
      else if (request.op === 'read' || request.op === 'read_next') this.readFailed(request.reader, error)
      else this.reply({ op: 'failed', failure: toFailure(error) })
    }
  }
}

const nothing = (): Chunk => ({
  groups: new Uint8Array(0),
  last: true,
  from: undefined,
  end: { seq: 0, head: new Uint8Array(32) },
})
