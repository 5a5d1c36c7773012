/** Queues groups in the journal's worker, signs and writes them, one frame at a time. */

import { RECEIPT_BODY } from '../../protocol/bodies/statements'
import { equalBytes } from '../../protocol/bytes'
import { signingKey } from '../../protocol/ed25519'
import type { ChainPoint } from '../../protocol/units'
import { LIMITS } from '../limits'
import type { GroupAuthor, GroupSigner, SignedFrame } from './contract'
import { FRAME_HEADER_BYTES, frameBytes, pointAfter, signGroup } from './frame'
import type { SegmentHeader } from './segment_header'
import type { SegmentWriter, SpareSegment } from './segment_writer'
import type { Position } from './walk_segment'

/** Head and signature of a group, as `durable` passes them on. */
export const PROOF_BYTES = 96

/** Makes a signed frame durable elsewhere before it is written here; nothing more is written after a rejection. */
export type Replicate = (frame: SignedFrame) => Promise<void>

type QueueParts = {
  writer: SegmentWriter
  spare: SpareSegment
  segments: SegmentHeader[]
  /**
   * Called after each write with head and signature of each group, PROOF_BYTES each, or those of the last one of an adopted
   * frame, and the time that the sync took.
   */
  durable: (proofs: Uint8Array, sync_ms: number) => void
  /** Called once; nothing is written afterwards. */
  failed: (error: unknown) => void
  /** Awaited before each write of own groups; frames are smaller then (LIMITS.log_entry_bytes). */
  replicate: Replicate | undefined
}

export class CommitQueue {
  private readonly bytes_max: number
  private waiting: Uint8Array[] = []
  private adopting: SignedFrame[] = []
  private dead = false
  private running: Promise<void> | undefined
  private signReceipt: SignReceipt | undefined
  private author: GroupAuthor | undefined

  constructor(private readonly parts: QueueParts) {
    const { replicate } = parts
    this.bytes_max = replicate === undefined ? LIMITS.journal_write_bytes_max : LIMITS.log_entry_bytes
  }

  /** Signs the groups pushed from now on; none may be queued. */
  signAs(signer: GroupSigner): void {
    this.signReceipt = receiptSigner(signer)
    const { epoch, statement_key, certificate } = signer
    this.author = { epoch, statement_key, certificate }
    this.parts.writer.signedBy(this.author)
  }

  push(group: Uint8Array): void {
    if (this.dead) return
    this.waiting.push(group)
    this.start()
  }

  /** Writes groups that another instance signed; none of the own may be queued. */
  adopt(frame: SignedFrame): void {
    if (this.dead) return
    this.adopting.push(frame)
    this.start()
  }

  /** Resolves when the queue is empty or a write failed. */
  async drained(): Promise<void> {
    while (this.running !== undefined) await this.running
  }

  private start(): void {
    if (this.running !== undefined || this.dead) return
    this.running = this.run().catch((error) => {
      this.dead = true
      this.running = undefined
      this.waiting = []
      this.adopting = []
      this.parts.failed(error)
    })
  }

  private async run(): Promise<void> {
    // Group commit: one turn of the event loop receives the groups that arrived during the last sync.
    for (await nextTurn(); this.waiting.length + this.adopting.length > 0; await nextTurn()) {
      const adopted = this.adopting.shift()
      if (adopted === undefined) await this.commit()
      else await this.write(adopted)
    }
    this.running = undefined
  }

  private async commit(): Promise<void> {
    const { writer, replicate, durable } = this.parts
    if (writer.room < (this.waiting[0] as Uint8Array).length) await this.nextSegment()
    const groups = takeFrame(this.waiting, Math.min(writer.room, this.bytes_max))
    this.waiting = this.waiting.slice(groups.length)
    const { seq, head } = writer.position as Position
    const { proofs, to, bytes } = signFrame(groups, { seq, head }, this.signReceipt as SignReceipt)
    if (replicate !== undefined)
      await replicate({ author: this.author as GroupAuthor, groups, from: { seq, head }, to })
    durable(proofs, writer.writeFrame(groups, bytes, to))
  }

  private async write({ author, groups, from, to }: SignedFrame): Promise<void> {
    const { writer, durable } = this.parts
    const { seq, head } = writer.position ?? START
    if (seq !== from.seq || !equalBytes(head, from.head)) throw new Error('a frame is not of this place')
    if (this.author === undefined || !isSame(this.author, author)) {
      this.author = author
      writer.signedBy(author)
    }
    let left = groups
    let sync_ms = 0
    for (let point = from; left.length > 0; ) {
      if (writer.room < left[0]!.length) await this.nextSegment()
      const frame = takeFrame(left, Math.min(writer.room, LIMITS.journal_write_bytes_max))
      left = left.slice(frame.length)
      point = frame.reduce(pointAfter, point)
      const bytes = frame.reduce((sum, { length }) => sum + length, 0)
      sync_ms += writer.writeFrame(frame, bytes, point)
    }
    const proof = new Uint8Array(PROOF_BYTES)
    proof.set(to.head)
    proof.set(groups.at(-1)!.subarray(-(PROOF_BYTES - 32)), 32)
    durable(proof, sync_ms)
  }

  private async nextSegment(): Promise<void> {
    const { spare, segments, writer } = this.parts
    await spare.ready()
    segments.push(writer.startSegment())
    spare.begin()
  }
}

const START: ChainPoint = { seq: 0, head: new Uint8Array(32) }
const isSame = (one: GroupAuthor, other: GroupAuthor) =>
  one.epoch === other.epoch &&
  equalBytes(one.statement_key, other.statement_key) &&
  equalBytes(one.certificate, other.certificate)

type SignReceipt = (point: ChainPoint, root: Uint8Array) => Uint8Array

function receiptSigner({ venue, epoch, seed }: GroupSigner): SignReceipt {
  const key = signingKey(seed)
  return ({ seq, head }, root) => {
    return key.sign(RECEIPT_BODY.encode({ venue, epoch: BigInt(epoch), seq: BigInt(seq), head, root }))
  }
}

/** Signs the groups of a frame behind `from`; `proofs` has head and signature of each. */
function signFrame(groups: readonly Uint8Array[], from: ChainPoint, sign: SignReceipt) {
  const proofs = new Uint8Array(groups.length * PROOF_BYTES)
  let to = from
  let bytes = 0
  groups.forEach((group, i) => {
    const signed = signGroup(group, to, sign)
    to = signed.point
    proofs.set(to.head, i * PROOF_BYTES)
    proofs.set(signed.signature, i * PROOF_BYTES + 32)
    bytes += group.length
  })
  return { proofs, to, bytes }
}

/** The groups of one frame: as many as fit, and at least one, for which there is room. */
function takeFrame(waiting: readonly Uint8Array[], bytes_max: number): Uint8Array[] {
  let bytes = 0
  let count = 0
  for (const group of waiting) {
    bytes += group.length
    if (count > 0 && bytes > bytes_max) break
    count++
  }
  return waiting.slice(0, count)
}

const nextTurn = () => new Promise<void>((resolve) => setImmediate(resolve))

/** Largest group that fits into a segment of this size. */
export function groupBytesMax(segment_bytes: number, first_sector_bytes: number): number {
  return Math.min(LIMITS.journal_write_bytes_max, segment_bytes - first_sector_bytes - FRAME_HEADER_BYTES)
}

export const frameBytesMax = (): number => frameBytes(LIMITS.journal_write_bytes_max)
