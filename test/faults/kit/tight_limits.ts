/** Preloaded into the process that crash tests kill: segments end and snapshots are taken many times in one life. */
import { LIMITS, SNAPSHOT_PACE } from '../../../engine/limits'

Object.assign(LIMITS, { journal_segment_bytes: 48 * 1024 })
Object.assign(SNAPSHOT_PACE, { records: 40, every_ms: 1_000, look_ms: 10 })
