/** The hashing worker as the engine sees it: jobs, results and the port of the two trees. */

/**
 * An input note of a settlement batch; field elements are 32 bytes big-endian. `nullifier` stands alone for a note whose
 * opening only its owner knows: an exit request names nothing else, and the program has checked it.
 */
export type HashInput =
  | { commitment: Uint8Array; blinding: Uint8Array; nullifier?: undefined }
  | { nullifier: Uint8Array }
/** An output note: everything its blinding, inner hash, commitment and memo are made of (protocol.md "Notes"). */
export type HashOutput = {
  anchor: Uint8Array
  /** 16 bytes; zeros for withdrawals and reshapes. */
  order_id: Uint8Array
  nonce: bigint
  generation: number
  /** 2*j + role, j = fill index (or output index), role 0 = proceeds, 1 = change. */
  index_role: number
  owner: Uint8Array
  mint: Uint8Array
  amount: bigint
}
export type HashJob = { batch_id: number; inputs: HashInput[]; outputs: HashOutput[]; refunds: HashRefund[] }
/** The `inner` a payout carries so that the program can build a refund note. */
export type HashRefund = {
  anchor: Uint8Array
  nonce: bigint
  generation: number
  index_role: number
  owner: Uint8Array
}
/** All arrays aligned with the job's. `spent_root` is the root after inserting the nullifiers in ascending order. */
export type HashResult = {
  nullifiers: Uint8Array[]
  outputs: { blinding: Uint8Array; commitment: Uint8Array; memo: Uint8Array }[]
  refund_inners: Uint8Array[]
  refund_blindings: Uint8Array[]
  spent_root: Uint8Array
  spent_count: number
}

/** Where a nullifier stands in the spent tree: its own leaf, or the one below its place (protocol/spent_tree.ts). */
export type SpentWitness = {
  present: boolean
  leaf_index: number
  next_value: Uint8Array
  /** 32, from the leaf upwards. */
  siblings: Uint8Array[]
  spent_root: Uint8Array
  /** Batch after which the tree has this root. */
  last_batch_id: number
}

/** The worker that owns Poseidon, the mirrored note tree (finalized leaves) and the spent tree. */
export interface HashPort {
  /**
   * Batches come in order of batch_id; asking again for the newest one gives the same result. The trees are derived: at
   * boot they hold what a cache file gave, and the engine feeds the rest (appendLeaves, restoreSpent) from its state.
   */
  hashBatch(job: HashJob): Promise<HashResult>
  /** Appends finalized leaves at `first_index`; already known ones must be equal. */
  appendLeaves(first_index: number, leaves: Uint8Array[]): Promise<{ leaf_count: number; root: Uint8Array }>
  /** The note tree at the newest appended leaf. */
  root(): { leaf_count: number; root: Uint8Array }
  spent(): { spent_count: number; spent_root: Uint8Array; last_batch_id: number }
  /** Leaves as far as the tree has them. */
  leaves(from: number, limit: number): Promise<Uint8Array[]>
  inclusion(
    leaf_index: number,
  ): Promise<{ leaf: Uint8Array; siblings: Uint8Array[]; root: Uint8Array; leaf_count: number }>
  /** The spent leaf that shows a nullifier present or absent under the newest hashed batch's root. */
  spentWitness(nullifier: Uint8Array): Promise<SpentWitness>
  /** Inserts batches the journal already holds, in order; feeds a worker that starts behind the journal. */
  restoreSpent(batches: { batch_id: number; nullifiers: Uint8Array[] }[]): Promise<void>
  close(): Promise<void>
}
