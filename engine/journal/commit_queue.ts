/** Queues groups in the journal's worker, signs and writes them, one frame at a time. */

import { encodeReceipt } from '../../protocol/bodies/receipt'
import { signingKey } from '../../protocol/ed25519'
import type { ChainPoint } from '../../protocol/units'
import { LIMITS } from '../limits'
import type { GroupSigner } from './contract'
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

/**
 * @param durable called after each write with head and signature of each written group, PROOF_BYTES each, and the time that
 * the sync took
 * @param failed called once; nothing is written afterwards
 */
export function commitQueue(
  writer: SegmentWriter,
  spare: SpareSegment,
  segments: SegmentHeader[],
  durable: (proofs: Uint8Array, sync_ms: number) => void,
  failed: (error: unknown) => void,
): CommitQueue {
  let waiting: Uint8Array[] = []
  let dead = false
  let running: Promise<void> | undefined
  let signReceipt: SignReceipt | undefined

  async function run(): Promise<void> {
    // Group commit: one turn of the event loop receives the groups that arrived during the last sync.
    for (await nextTurn(); waiting.length > 0; await nextTurn()) await commit()
    running = undefined
  }

  async function commit(): Promise<void> {
    if (writer.room < (waiting[0] as Uint8Array).length) await nextSegment()
    const groups = takeFrame(waiting, writer.room)
    waiting = waiting.slice(groups.length)
    const proofs = new Uint8Array(groups.length * PROOF_BYTES)
    let point: ChainPoint = writer.position as Position
    let bytes = 0
    groups.forEach((group, i) => {
      const signed = signGroup(group, point, signReceipt as SignReceipt)
      point = signed.point
      proofs.set(point.head, i * PROOF_BYTES)
      proofs.set(signed.signature, i * PROOF_BYTES + 32)
      bytes += group.length
    })
    durable(proofs, writer.writeFrame(groups, bytes, point))
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
      writer.signedBy({ epoch, statement_key, certificate })
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

/** The groups of one frame: as many as fit. */
function takeFrame(waiting: readonly Uint8Array[], room: number): Uint8Array[] {
  const bytes_max = Math.min(room, LIMITS.journal_write_bytes_max)
  let bytes = 0
  let count = 0
  for (const group of waiting) {
    bytes += group.length
    if (bytes > bytes_max) break
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
