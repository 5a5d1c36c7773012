/** What the rest of the engine knows of stored snapshots. */

export type Snapshot = {
  /** Journal seq the state is true at, and the chain head after that record. */
  seq: number
  head: Uint8Array
  /**
   * The bytes in blocks, each checked again as it is read from the file and valid until the next is asked for.
   * @throws Error when the file is no longer what it was
   */
  blocks(): Generator<Uint8Array>
}
export interface SnapshotStore {
  /**
   * Encrypts, writes, syncs and publishes by rename; keeps the newest two. Works off the main thread in pieces, so what
   * is written must not change until it resolves.
   * @param blocks of any length; asked for twice, as the length of all stands in front of them
   */
  writeSnapshot(seq: number, head: Uint8Array, blocks: () => Iterable<Uint8Array>): Promise<void>
  /**
   * The newest snapshot that authenticates, of those taken at `seq_max` or before; damaged ones are passed over and
   * named in `rejected`.
   */
  newestValid(seq_max?: number): Promise<{ snapshot: Snapshot | undefined; rejected: string[] }>
  /** Journal seqs of the stored snapshots, newest first. */
  seqs(): number[]
}
