/** Notes the engine can spend: deposits it was shown the opening of, and outputs it created itself. */

/**
 * `free`: backs nothing. `in_use`: locked by a live order, withdrawal or reshape. `spent`: an input of a settlement
 * batch. `exiting`: the chain saw an exit request for it.
 */
export type NoteStatus = 'free' | 'in_use' | 'spent' | 'exiting'

export type Note = {
  /** The owning trading key, base58. */
  readonly owner: string
  /** Index of the mint in `State.mints`. */
  readonly mint: number
  readonly amount: bigint
  status: NoteStatus
  /** Hex; undefined while the batch that creates the note is not hashed. */
  commitment: string | undefined
  blinding: Uint8Array | undefined
  /** Hex; known for opened notes from the start, for others once they are spent. */
  nullifier: string | undefined
  /** Leaf index if the note came in deposit form or was opened; it must be covered by the cited known state. */
  leaf_index: number | undefined
  /** Settlement batch that spends it, 0 = none. */
  spent_in: number
}
