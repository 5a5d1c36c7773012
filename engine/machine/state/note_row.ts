/** Defines the row of a note in memory: 136 bytes, little-endian. */

export const BLINDING_AT = 0
export const NULLIFIER_AT = 32
export const COMMITMENT_AT = 64
export const AMOUNT_AT = 96
/** 48 bits. */
export const SPENT_IN_AT = 104
export const MINT_AT = 110
/** The leaf index that the note was opened with. */
export const LEAF_AT = 112
/** 1 + the index of its key, or 0 for an owner that is not a trading key of the venue. */
export const OWNER_AT = 116
export const LINKS_AT = 120
export const HOLDS_AT = 128
/** Counts the notes this row has held, so that a stale reference is detected. */
export const LIFE_AT = 132
export const STATUS_AT = 134
export const FLAGS_AT = 135
export const NOTE_BYTES = 136

export const HAS_COMMITMENT = 1
export const HAS_NULLIFIER = 2
/** The note was opened at, or paid out as, a leaf of known index. */
export const HAS_LEAF_INDEX = 4
/** In the table of known notes. */
export const KNOWN = 8
export const HAS_BLINDING = 16
/** The commitment is a finalized leaf. */
export const LANDED = 32
