/** Writes frames to the current segment, prepares the spare file and switches to the next segment. */

import { join } from 'node:path'
import type { ChainPoint } from '../../protocol/units'
import { LIMITS } from '../limits'
import type { GroupAuthor } from './contract'
import { disk, isFull, writeFileWhole, writeWhole } from './disk'
import { FRAME_HEADER_BYTES, frameBytes, sealFrame } from './frame'
import { SPARE_NAME, segmentName, syncFolder, UNFINISHED_SPARE_NAME } from './segment_files'
import {
  encodeSegmentHeader,
  SECTOR_BYTES,
  type SegmentHeader,
  type SegmentKeys,
  segmentKeys,
} from './segment_header'
import { type Position, segmentStart } from './walk_segment'

const ZEROS = new Uint8Array(LIMITS.journal_spare_piece_bytes)

export type SpareSegment = {
  /** Resolves when the spare is complete and synced under SPARE_NAME; waits for space while the disk is full. */
  ready(): Promise<void>
  /** Starts the next spare; call after the current one became a segment. */
  begin(): void
  /**
   * Waits for no more space, and once `written` resolved stops at the next piece and deletes an unfinished file; the next
   * opening uses a finished one.
   */
  stop(written: Promise<void>): Promise<void>
}

/**
 * Prepares the file of zeros that becomes the next segment, so that switching segments does not pause writes. The
 * zeros are written rather than reserved: a sync of a write into written blocks changes no metadata, is about twice
 * as fast, and needs no space. Each piece is synced by itself, with a rest before the next while the spare is twice as full
 * as the current segment, so that this background work occupies neither the disk nor a core for long: without rests the
 * orders of a quarter of a second wait for it. A failed attempt is repeated: at once when the spare is needed, and while the
 * disk is full until it is not.
 *
 * @param filled share of the current segment; 1 without one
 */
export function spareSegment(dir: string, segment_bytes: number, filled: () => number): SpareSegment {
  const finished = join(dir, SPARE_NAME)
  const unfinished = join(dir, UNFINISHED_SPARE_NAME)
  let stopped = false
  let giving_up = false
  let making: Promise<void> | undefined

  async function make(): Promise<void> {
    if (disk.exists(finished) && disk.size(finished) === segment_bytes) return
    const file = await disk.create(unfinished)
    try {
      for (let at = 0; at < segment_bytes && !stopped; at += ZEROS.length) {
        if (at > 2 * filled() * segment_bytes && !giving_up) await Bun.sleep(LIMITS.journal_spare_rest_ms)
        await writeFileWhole(file, ZEROS, Math.min(ZEROS.length, segment_bytes - at), at)
        await file.datasync()
      }
      await file.sync()
    } finally {
      await file.close()
    }
    if (stopped) disk.rmSync(unfinished)
    else disk.renameSync(unfinished, finished)
  }

  async function untilMade(): Promise<void> {
    for (;;) {
      try {
        return await make()
      } catch (error) {
        // A file that is being made holds space that its retry, and everything else, needs.
        disk.rmSync(unfinished)
        if (giving_up || !isFull(error)) throw error
        await Bun.sleep(LIMITS.disk_retry_ms)
      }
    }
  }

  function begin(): void {
    making = untilMade()
    making.catch(() => {
      making = undefined
    })
  }

  return {
    begin,
    ready() {
      if (making === undefined) begin()
      return making as Promise<void>
    },
    async stop(written) {
      giving_up = true
      await written
      stopped = true
      await making?.catch(() => undefined)
    },
  }
}

type WriterOptions = {
  dir: string
  key: Uint8Array
  segment_bytes: number
  /** 32 random bytes per segment. */
  salt: () => Uint8Array
}

export class SegmentWriter {
  private readonly options: WriterOptions
  private readonly buffer: Uint8Array
  private fd: number | undefined
  private author: GroupAuthor | undefined
  private keys: SegmentKeys | undefined
  private last: { number: number; end: Position } | undefined

  /** `last` is the end of the newest segment on disk, to which nothing more is written. */
  constructor(
    options: WriterOptions,
    last: { number: number; end: Position } | undefined,
    frame_bytes_max: number,
  ) {
    this.options = options
    this.last = last
    this.buffer = new Uint8Array(frame_bytes_max)
  }

  get position(): Position | undefined {
    return this.last?.end
  }

  /** The next write starts a segment of this author. */
  signedBy(author: GroupAuthor): void {
    this.author = author
    this.close()
  }

  /** Plaintext bytes that still fit into the current segment; negative when it is full or no segment is open. */
  get room(): number {
    if (this.fd === undefined || this.last === undefined) return -1
    return this.options.segment_bytes - this.last.end.offset - FRAME_HEADER_BYTES
  }

  /** Share of the current segment; 1 when the next write needs another. */
  get filled(): number {
    return this.fd === undefined || this.last === undefined
      ? 1
      : this.last.end.offset / this.options.segment_bytes
  }

  /** Makes the spare the next segment. The rename also fixes the end of the previous segment. */
  startSegment(): SegmentHeader {
    const { dir, key, salt } = this.options
    const { author, last: previous } = this
    if (author === undefined) throw new Error('no author signs the groups of the journal')
    const number = (previous?.number ?? 0) + 1
    const end = previous?.end
    const header: SegmentHeader = {
      number,
      seq: end?.seq ?? 0,
      head: end?.head ?? new Uint8Array(32),
      previous_frames: end?.frames ?? 0,
      previous_end: end?.offset ?? 0,
      salt: salt(),
      author,
    }
    const keys = segmentKeys(key, number, header.salt)
    const fd = disk.openSync(join(dir, SPARE_NAME), 'r+')
    writeWhole(fd, encodeSegmentHeader(header, keys), SECTOR_BYTES, 0)
    disk.sync(fd)
    disk.renameSync(join(dir, SPARE_NAME), join(dir, segmentName(number)))
    syncFolder(dir)
    if (this.fd !== undefined) disk.closeSync(this.fd)
    // Frees unused space. Bytes behind `previous_end` are ignored anyway, so a crash before this step is harmless.
    if (previous !== undefined) disk.truncate(join(dir, segmentName(previous.number)), previous.end.offset)
    this.fd = fd
    this.keys = keys
    this.last = { number, end: segmentStart(header) }
    return header
  }

  /**
   * Writes and syncs one frame up to `to`; durable on return. Any error closes the journal.
   * @returns milliseconds that the sync took
   */
  writeFrame(groups: readonly Uint8Array[], plain_bytes: number, to: ChainPoint): number {
    const last = this.last
    if (this.fd === undefined || this.keys === undefined || last === undefined)
      throw new Error('no segment is open')
    const from = last.end
    const bytes = frameBytes(plain_bytes)
    const frame = this.buffer.subarray(0, bytes)
    const header = {
      frame: from.frames,
      plain_bytes,
      seq_first: from.seq + 1,
      records: to.seq - from.seq,
      groups: groups.length,
    }
    sealFrame(frame, header, groups, from.head, this.keys.frame)
    writeWhole(this.fd, frame, bytes, from.offset)
    const began_ms = performance.now()
    disk.datasync(this.fd)
    const sync_ms = performance.now() - began_ms
    this.last = { number: last.number, end: { ...to, frames: from.frames + 1, offset: from.offset + bytes } }
    return sync_ms
  }

  close(): void {
    if (this.fd !== undefined) disk.closeSync(this.fd)
    this.fd = undefined
  }
}
