/** What the engine and its snapshot thread say to each other. */
import type { SeedParts } from '../loop/journaled_seeds'

/** Where journal and snapshots lie, and what opens and replays them. */
export type SnapshotSource = {
  journal_dir: string
  snapshots_dir: string
  journal_key: Uint8Array
  seeds: SeedParts
  retention_ms: number
}
/** A place in the journal at which a group ends and which is durable. */
export type SnapshotPoint = { seq: number; head: Uint8Array; unix_ms: number }

export type Request = { op: 'open'; source: SnapshotSource } | { op: 'make'; point: SnapshotPoint }
export type Reply =
  /** Records below `retire_before` are needed neither by a boot nor by the retention. */
  { op: 'made'; retire_before: number } | { op: 'failed'; message: string; disagrees_at: number | undefined }
