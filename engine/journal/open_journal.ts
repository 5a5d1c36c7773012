/** Opens the journal: locks its folder, starts its worker and posts requests to it. */

import type { ChainPoint } from '../../protocol/units'
import { LIMITS } from '../limits'
import { Histogram } from '../memory/histogram'
import { groupBytesMax, PROOF_BYTES } from './commit_queue'
import {
  type Appended,
  type Chunk,
  type Failure,
  fromFailure,
  type GroupSigner,
  type Journal,
  JournalClosed,
  type JournalOptions,
  type JournalRecord,
  type NewRecord,
  type RecordBatch,
  type Reply,
  type Request,
  replyOf,
  type SignedFrame,
  type SignedGroup,
} from './contract'
import { encodeGroup, readGroups, readRecords } from './frame'
import { lockFolder } from './segment_files'
import { SECTOR_BYTES } from './segment_header'

/** Chunks requested ahead: the worker decrypts the next one while this one is replayed. */
const CHUNKS_AHEAD = 2
/** The root of a group without commands. */
const NO_COMMANDS = new Uint8Array(32)
type ReadReply = Extract<Reply, { op: 'chunk' | 'read_failed' }>

type JournalReader = {
  chunks(): AsyncGenerator<Chunk, void, undefined>
  receive(reply: ReadReply): void
  /** Fails the generator: the journal is closed. */
  abandon(error: Error): void
}

/** Requests chunks of one read from the worker. */
function journalReader(
  id: number,
  from_seq: number,
  expected: ChainPoint[],
  post: (request: Request) => void,
  ended: () => void,
): JournalReader {
  const arrived: (ReadReply | Error)[] = []
  let wake: (() => void) | undefined

  function deliver(item: ReadReply | Error): void {
    arrived.push(item)
    wake?.()
  }

  async function nextReply(): Promise<ReadReply> {
    while (arrived.length === 0) {
      await new Promise<void>((resolve) => {
        wake = resolve
      })
    }
    const item = arrived.shift() as ReadReply | Error
    if (item instanceof Error) throw item
    if (item.op === 'read_failed') throw fromFailure(item.failure)
    return item
  }

  async function* chunks(): AsyncGenerator<Chunk, void, undefined> {
    post({ op: 'read', reader: id, from_seq, expected })
    for (let i = 0; i < CHUNKS_AHEAD; i++) post({ op: 'read_next', reader: id })
    let done = false
    try {
      while (!done) {
        const reply = await nextReply()
        if (reply.op !== 'chunk') continue
        done = reply.last
        if (!done) post({ op: 'read_next', reader: id })
        if (reply.groups.length > 0) yield reply
      }
    } finally {
      if (!done) post({ op: 'read_stop', reader: id })
      ended()
    }
  }

  return { chunks, receive: deliver, abandon: deliver }
}

/** A node that the replicated log rejects ends by that verdict, not by a disk that failed: errors of the system have no name. */
const closedBy = ({ name, message }: Failure) =>
  new JournalClosed(message, name === 'Error' ? undefined : name)

const ownThread = () => new Worker(new URL('./journal_worker.ts', import.meta.url))

/**
 * @throws JournalLocked when the folder is already open; JournalDamaged when stored bytes differ from the written ones
 * (nothing is modified then); RangeError for an invalid option
 */
export async function openJournal(options: JournalOptions): Promise<Journal> {
  const { dir, key, segment_bytes = LIMITS.journal_segment_bytes, thread = ownThread } = options
  if (key.length !== 32) throw new RangeError('the journal key has 32 bytes')
  if (
    segment_bytes % SECTOR_BYTES !== 0 ||
    segment_bytes < LIMITS.journal_segment_bytes_min ||
    segment_bytes > LIMITS.journal_segment_bytes_max
  )
    throw new RangeError(
      `segment_bytes is a multiple of ${SECTOR_BYTES} from ${LIMITS.journal_segment_bytes_min} to 1 GiB`,
    )
  const unlock = lockFolder(dir)
  const worker = thread()
  const stop = () => {
    worker.terminate()
    unlock()
  }
  try {
    const opened = await new Promise<Extract<Reply, { op: 'opened' }>>((resolve, reject) => {
      worker.onerror = ({ message }) => reject(new Error(`the journal worker failed: ${message}`))
      worker.onmessage = ({ data }: MessageEvent<Reply>) => {
        if (data.op === 'opened') resolve(data)
        else if (data.op === 'refused') reject(fromFailure(data.failure))
      }
      worker.postMessage({ op: 'open', dir, key, segment_bytes } satisfies Request)
    })
    return new WorkerJournal(worker, stop, opened, groupBytesMax(segment_bytes, SECTOR_BYTES))
  } catch (error) {
    stop()
    throw error
  }
}

type Waiting = {
  seq_last: number
  began_ms: number
  resolve: (appended: Appended) => void
  reject: (error: Error) => void
}

class WorkerJournal implements Journal {
  readonly latency = { append: new Histogram(), sync: new Histogram() }
  private readonly worker: Worker
  private readonly stop: () => void
  private readonly group_bytes_max: number
  private durable: { seq: number; head: Uint8Array }
  private seq_next: number
  private signed = false
  private first_seq: number
  private waiting: Waiting[] = []
  private retiring: { resolve: () => void; reject: (error: Error) => void }[] = []
  private readonly readers = new Map<number, JournalReader>()
  private readers_made = 0
  private closed: Error | undefined
  private stopped = false
  private on_closed: (() => void) | undefined

  constructor(
    worker: Worker,
    stop: () => void,
    opened: ChainPoint & { first_seq: number },
    group_bytes_max: number,
  ) {
    this.worker = worker
    this.stop = stop
    this.group_bytes_max = group_bytes_max
    this.durable = { seq: opened.seq, head: opened.head }
    this.seq_next = opened.seq + 1
    this.first_seq = opened.first_seq
    worker.onmessage = ({ data }: MessageEvent<Reply | ArrayBuffer>) => this.receive(replyOf(data))
    worker.onerror = ({ message }) => this.fail(new JournalClosed(`the journal worker failed: ${message}`))
  }

  append(records: readonly NewRecord[], root = NO_COMMANDS): Promise<Appended> {
    if (this.closed !== undefined) return Promise.reject(this.closed)
    if (!this.signed) throw new Error('no author signs the groups of the journal')
    if (records.length === 0) throw new RangeError('a group has at least one record')
    const group = encodeGroup(records, this.seq_next, root)
    if (group.length > this.group_bytes_max)
      throw new RangeError(`a group has at most ${this.group_bytes_max} bytes`)
    return this.written(this.seq_next + records.length - 1, group.buffer, [group.buffer])
  }

  adopt(frame: SignedFrame): Promise<Appended> {
    if (this.closed !== undefined) return Promise.reject(this.closed)
    if (frame.from.seq + 1 !== this.seq_next || frame.to.seq <= frame.from.seq)
      throw new RangeError(`the journal continues at seq ${this.seq_next}`)
    this.signed = false
    return this.written(frame.to.seq, { op: 'adopt', frame })
  }

  private written(
    seq_last: number,
    request: Request | ArrayBuffer,
    moved: ArrayBuffer[] = [],
  ): Promise<Appended> {
    if (this.waiting.length >= LIMITS.journal_pending_groups_max) {
      this.fail(new JournalClosed('the disk is too slow'))
      return Promise.reject(this.closed)
    }
    this.seq_next = seq_last + 1
    this.post(request, moved)
    const began_ms = performance.now()
    return new Promise((resolve, reject) => this.waiting.push({ seq_last, began_ms, resolve, reject }))
  }

  signAs(signer: GroupSigner): void {
    if (this.waiting.length > 0) throw new Error('another author has groups pending')
    this.post({ op: 'sign_as', signer })
    this.signed = true
  }

  async *readBatches(
    from_seq: number,
    head_before?: Uint8Array,
    passing: readonly ChainPoint[] = [],
  ): AsyncGenerator<RecordBatch, void> {
    const before = head_before === undefined ? [] : [{ seq: from_seq - 1, head: head_before }]
    const expected = [...before, ...passing.filter(({ seq }) => seq >= from_seq)]
    for await (const { groups, end } of this.chunks(from_seq, expected)) {
      const records: JournalRecord[] = []
      readRecords(groups, from_seq, records)
      yield { records, end }
    }
  }

  async *readGroups(from: ChainPoint): AsyncGenerator<SignedGroup[], void> {
    for await (const chunk of this.chunks(from.seq + 1, [from])) {
      const { point, author } = chunk.from!
      const groups = readGroups(chunk.groups, point).filter(({ seq }) => seq > from.seq)
      yield groups.map((group) => ({ ...group, author }))
    }
  }

  private chunks(from_seq: number, expected: ChainPoint[]): AsyncGenerator<Chunk, void, undefined> {
    if (!Number.isSafeInteger(from_seq) || from_seq < 1) throw new RangeError('seq counts from 1')
    if (this.closed !== undefined) throw this.closed
    const id = ++this.readers_made
    const post = (request: Request) => this.post(request)
    const reader = journalReader(id, from_seq, expected, post, () => this.readers.delete(id))
    this.readers.set(id, reader)
    return reader.chunks()
  }

  head = (): { seq: number; head: Uint8Array } => this.durable
  firstSeq = (): number => this.first_seq
  pending = (): number => this.waiting.length

  retire(before_seq: number): Promise<void> {
    if (this.closed !== undefined) return Promise.reject(this.closed)
    this.post({ op: 'retire', before_seq })
    return new Promise((resolve, reject) => this.retiring.push({ resolve, reject }))
  }

  async close(): Promise<void> {
    if (this.closed !== undefined) return
    this.closed = new JournalClosed('the journal is closed')
    await new Promise<void>((resolve) => {
      this.on_closed = resolve
      this.post({ op: 'close' })
    })
    this.release(this.closed)
  }

  private post(request: Request | ArrayBuffer, moved: ArrayBuffer[] = []): void {
    if (this.stopped) return
    this.worker.postMessage(request, moved)
  }

  private receive(reply: Reply): void {
    if (reply.op === 'durable') this.settle(reply)
    else if (reply.op === 'failed') this.fail(closedBy(reply.failure))
    else if (reply.op === 'closed') this.on_closed?.()
    else if (reply.op === 'chunk' || reply.op === 'read_failed')
      this.readers.get(reply.reader)?.receive(reply)
    else if (reply.op === 'retired') {
      this.first_seq = reply.first_seq
      this.retiring.shift()?.resolve()
    }
  }

  private settle({ proofs, sync_ms }: Extract<Reply, { op: 'durable' }>): void {
    const now_ms = performance.now()
    this.latency.sync.observe(sync_ms)
    const settled = this.waiting.splice(0, proofs.length / PROOF_BYTES)
    settled.forEach(({ seq_last, began_ms, resolve }, i) => {
      this.latency.append.observe(now_ms - began_ms)
      const proof = proofs.subarray(i * PROOF_BYTES, (i + 1) * PROOF_BYTES)
      const head = proof.subarray(0, 32)
      this.durable = { seq: seq_last, head }
      resolve({ seq_last, head, signature: proof.subarray(32) })
    })
  }

  /** After a failed write memory may be ahead of disk, so appends and reads fail from here on. */
  private fail(error: Error): void {
    this.closed ??= error
    this.release(error)
    this.on_closed?.()
  }

  private release(error: Error): void {
    if (this.stopped) return
    this.stopped = true
    this.stop()
    for (const { reject } of this.waiting.splice(0)) reject(error)
    for (const { reject } of this.retiring.splice(0)) reject(error)
    for (const reader of this.readers.values()) reader.abandon(error)
  }
}
