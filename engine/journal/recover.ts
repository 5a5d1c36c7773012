/** Finds where the journal ends. Reads only: a damaged journal is left exactly as it was found. */
import { letGo } from '../let_go'
import { listSegments, loadSegment } from './segment_files'
import type { SegmentHeader } from './segment_header'
import { type Position, readFrame, segmentStart } from './walk_segment'

export type Recovered = {
  segments: SegmentHeader[]
  /** End of the last segment; undefined while there is none. */
  end: Position | undefined
}

/**
 * Checks every segment header and every group of the last segment; a torn last write is left out of `end`. The groups
 * of earlier segments are checked by whoever reads them (read_segments.ts).
 * @throws JournalDamaged
 */
export function recover(dir: string, key: Uint8Array): Recovered {
  const segments = listSegments(dir, key)
  const last = segments.at(-1)
  if (last === undefined) return { segments, end: undefined }
  const segment = loadSegment(dir, last, key)
  try {
    let end = segmentStart(last)
    for (let step = readFrame(segment, end); step !== undefined; step = readFrame(segment, end))
      end = step.next
    return { segments, end }
  } finally {
    letGo(segment.bytes)
  }
}
