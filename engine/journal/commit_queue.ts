/** Queues groups in the journal's worker, signs and writes them, one frame at a time. */

import { encodeReceipt } from '../../protocol/bodies/receipt'
import { signingKey } from '../../protocol/ed25519'
import type { ChainPoint } from '../../protocol/units'
import { LIMITS } from '../limits'
import type { GroupAuthor, GroupSigner, SignedFrame } from './contract'
import { FRAME_HEADER_BYTES, frameBytes, signGroup } from './frame'
import type { SegmentHeader } from './segment_header'
import type { SegmentWriter, SpareSegment } from './segment_writer'
import type { Position } from './walk_segment'

/** Head and signature of a group, as `durable` passes them on. */
export const PROOF_BYTES = 96

export type CommitQueue = {
  /** Signs the groups pushed from now on; none may be queued. */
  signAs(signer: GroupSigner): void
  push(group: Uint8Array): void
  /** Resolves when the queue is empty or a write failed. */
  drained(): Promise<void>
}

/** Makes a signed frame durable elsewhere before it is written here; nothing more is written after a rejection. */
export type Replicate = (frame: SignedFrame) => Promise<void>

/**
 * @param durable called after each write with head and signature of each written group, PROOF_BYTES each, and the time that
 * the sync took
 * @param failed called once; nothing is written afterwards
 * @param replicate awaited before each write; frames are smaller then (LIMITS.log_entry_bytes)
 */
export function commitQueue(
  writer: SegmentWriter,
  spare: SpareSegment,
  segments: SegmentHeader[],
  durable: (proofs: Uint8Array, sync_ms: number) => void,
  failed: (error: unknown) => void,
  replicate?: Replicate,
): CommitQueue {
  const bytes_max = replicate === undefined ? LIMITS.journal_write_bytes_max : LIMITS.log_entry_bytes
  let waiting: Uint8Array[] = []
  let dead = false
  let running: Promise<void> | undefined
  let signReceipt: SignReceipt | undefined
  let author: GroupAuthor | undefined

  async function run(): Promise<void> {
    // Group commit: one turn of the event loop receives the groups that arrived during the last sync.
    for (await nextTurn(); waiting.length > 0; await nextTurn()) await commit()
    running = undefined
  }

  async function commit(): Promise<void> {
    if (writer.room < (waiting[0] as Uint8Array).length) await nextSegment()
    const groups = takeFrame(waiting, Math.min(writer.room, bytes_max))
    waiting = waiting.slice(groups.length)
    const { seq, head } = writer.position as Position
    const { proofs, to, bytes } = signFrame(groups, { seq, head }, signReceipt as SignReceipt)
    if (replicate !== undefined)
      await replicate({ author: author as GroupAuthor, groups, from: { seq, head }, to })
    durable(proofs, writer.writeFrame(groups, bytes, to))
  }

  async function nextSegment(): Promise<void> {
    await spare.ready()
    segments.push(writer.startSegment())
    spare.begin()
  }

  function start(): void {
    if (running !== undefined || dead) return
    running = run().catch((error) => {
      dead = true
      waiting = []
      failed(error)
    })
  }

  return {
    signAs(next) {
      signReceipt = receiptSigner(next)
      const { epoch, statement_key, certificate } = next
      author = { epoch, statement_key, certificate }
      writer.signedBy(author)
    },
    push(group) {
      if (dead) return
      waiting.push(group)
      start()
    },
    async drained() {
      while (!dead && running !== undefined) await running
    },
  }
}

type SignReceipt = (point: ChainPoint, root: Uint8Array) => Uint8Array

function receiptSigner({ venue, epoch, seed }: GroupSigner): SignReceipt {
  const key = signingKey(seed)
  return ({ seq, head }, root) => {
    return key.sign(encodeReceipt({ venue, epoch: BigInt(epoch), seq: BigInt(seq), head, root }))
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
