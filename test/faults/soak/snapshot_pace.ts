/** Preloaded into the process of a soak: it lives for minutes, and takes several snapshots in them. */
import { SNAPSHOT_PACE } from '../../../engine/limits'

Object.assign(SNAPSHOT_PACE, { every_ms: 60_000 })
