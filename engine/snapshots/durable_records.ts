/** Reads the journal's files beside the thread that writes them: only what is known to be durable is looked at. */
import type { JournalRecord } from '../journal/contract'
import { readRecords } from '../journal/group'
import { readSegments } from '../journal/read_segments'
import { listSegments } from '../journal/segment_files'

/**
 * Records from `from_seq` to `seq_last` in chunks, checked on the way. What lies behind the frame of `seq_last` may be
 * under way and counts for nothing.
 * @param head_before chain head after record from_seq - 1
 * @throws JournalDamaged, RangeError as readSegments does
 */
export function* durableRecords(
  where: { dir: string; key: Uint8Array },
  from_seq: number,
  head_before: Uint8Array | undefined,
  seq_last: number,
): Generator<JournalRecord[]> {
  const segments = listSegments(where.dir, where.key)
  const reader = readSegments(where, segments, { seq: seq_last }, from_seq, head_before)
  try {
    for (let last = false; !last; ) {
      const chunk = reader.next()
      last = chunk.last
      const records: JournalRecord[] = []
      readRecords(chunk.groups, from_seq, records)
      yield records.filter(({ seq }) => seq <= seq_last)
    }
  } finally {
    reader.stop()
  }
}
