/** Queues groups and fences in the journal's worker and writes them, one frame at a time. */

import { randomFillSync } from 'node:crypto'
import { LIMITS } from '../limits'
import { FRAME_HEADER_BYTES, frameBytes, GROUP_SALT_AT, groupRecords, headAfter } from './frame'
import type { SegmentHeader } from './segment_header'
import type { SegmentWriter, SpareSegment } from './segment_writer'
import type { Position } from './walk_segment'

type Item = { group: Uint8Array } | { epoch: number }

export type CommitQueue = {
  push(item: Item): void
  /** Resolves when the queue is empty or a write failed. */
  drained(): Promise<void>
}

/**
 * @param durable called after each write with the head after each written item, 32 bytes each
 * @param failed called once; nothing is written afterwards
 */
export function commitQueue(
  writer: SegmentWriter,
  spare: SpareSegment,
  segments: SegmentHeader[],
  durable: (heads: Uint8Array) => void,
  failed: (error: unknown) => void,
): CommitQueue {
  let waiting: Item[] = []
  let dead = false
  let running: Promise<void> | undefined

  async function run(): Promise<void> {
    // Group commit: one turn of the event loop receives the groups that arrived during the last sync.
    for (await nextTurn(); waiting.length > 0; await nextTurn()) await commit()
    running = undefined
  }

  async function commit(): Promise<void> {
    const first = waiting[0] as Item
    if (writer.room < ('group' in first ? first.group.length : 0)) await nextSegment()
    const items = takeFrame(waiting, writer.room)
    waiting = waiting.slice(items.length)
    const at = writer.position as Position
    const heads = new Uint8Array(items.length * 32)
    if ('epoch' in first) {
      heads.set(at.head)
      writer.writeFrame([], 0, { ...at, epoch: first.epoch })
    } else {
      writeGroups(writer, items as { group: Uint8Array }[], at, heads)
    }
    durable(heads)
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
    push(item) {
      if (dead) return
      waiting.push(item)
      start()
    },
    async drained() {
      while (!dead && running !== undefined) await running
    },
  }
}

/** Salts the groups, writes them as one frame behind `at`, and fills `heads` with the head after each group. */
function writeGroups(
  writer: SegmentWriter,
  items: { group: Uint8Array }[],
  at: Position,
  heads: Uint8Array,
): void {
  let { seq, head } = at
  let bytes = 0
  items.forEach(({ group }, i) => {
    randomFillSync(group, GROUP_SALT_AT, 16)
    head = headAfter(head, group)
    heads.set(head, i * 32)
    seq += groupRecords(group)
    bytes += group.length
  })
  writer.writeFrame(
    items.map(({ group }) => group),
    bytes,
    { seq, head, epoch: at.epoch },
  )
}

/** The items of one frame: a single fence, or the groups before the next fence that fit. */
function takeFrame(waiting: readonly Item[], room: number): Item[] {
  const first = waiting[0]
  if (first === undefined || 'epoch' in first) return waiting.slice(0, 1)
  const bytes_max = Math.min(room, LIMITS.journal_write_bytes_max)
  let bytes = 0
  let count = 0
  for (const item of waiting) {
    if ('epoch' in item || bytes + item.group.length > bytes_max) break
    bytes += item.group.length
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
