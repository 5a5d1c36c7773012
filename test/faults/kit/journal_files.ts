/** The journal of a stopped venue as files: where its groups lie, and what changed. */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { decodeFrameHeader, type FrameHeader, frameBytes } from '../../../engine/journal/frame'
import { SECTOR_BYTES } from '../../../engine/journal/segment_header'

export type PlacedFrame = { path: string; offset: number; end: number; header: FrameHeader }

export function segmentPaths(data_dir: string): string[] {
  const dir = join(data_dir, 'journal')
  const names = readdirSync(dir).filter((name) => name.endsWith('.segment'))
  return names.sort().map((name) => join(dir, name))
}

/** Frame headers are readable without the key. */
export function framesOf(path: string): PlacedFrame[] {
  const bytes = new Uint8Array(readFileSync(path))
  const frames: PlacedFrame[] = []
  let offset = SECTOR_BYTES
  for (;;) {
    const header = decodeFrameHeader(bytes, offset)
    if (header === undefined) return frames
    const end = offset + frameBytes(header.plain_bytes)
    frames.push({ path, offset, end, header })
    offset = end
  }
}

/** The frame that holds the record of this journal seq. */
export function frameOf(data_dir: string, seq: number): PlacedFrame {
  const frames = segmentPaths(data_dir).flatMap(framesOf)
  const holds = ({ header }: PlacedFrame) =>
    header.seq_first <= seq && seq < header.seq_first + header.records
  const found = frames.find(holds)
  if (found === undefined) throw new Error(`no frame holds seq ${seq}`)
  return found
}

/** Flips every bit of one byte; done twice it changes nothing. */
export function flipByte(path: string, offset: number): void {
  const bytes = readFileSync(path)
  bytes[offset] = ~bytes[offset]! & 0xff
  writeFileSync(path, bytes)
}

/** Name, size and hash of every file of the journal and the snapshots; the lock is not among what was written. */
export function fingerprint(data_dir: string): string[] {
  return ['journal', 'snapshots'].flatMap((folder) => {
    const names = readdirSync(join(data_dir, folder))
      .filter((name) => !name.startsWith('journal.lock'))
      .sort()
    return names.map((name) => {
      const bytes = readFileSync(join(data_dir, folder, name))
      return `${folder}/${name} ${bytes.length} ${createHash('sha256').update(bytes).digest('hex')}`
    })
  })
}
