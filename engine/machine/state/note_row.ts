/** Defines the row of a note in memory: 104 bytes, little-endian. */

export const BLINDING_AT = 0
export const COMMITMENT_AT = 32
export const AMOUNT_AT = 64
/** 48 bits. */
export const SPENT_IN_AT = 72
export const MINT_AT = 78
/** The leaf index that the note was opened with. */
export const LEAF_AT = 80
/** 1 + the index of its key, or 0 for an owner that is not a trading key of the venue. */
export const OWNER_AT = 84
export const LINKS_AT = 88
export const HOLDS_AT = 96
/** Counts the notes this row has held, so that a stale reference is detected. */
export const LIFE_AT = 100
export const STATUS_AT = 102
export const FLAGS_AT = 103
export const NOTE_BYTES = 104

export const HAS_COMMITMENT = 1
export const HAS_BLINDING = 2
/** The note was opened at, or paid out as, a leaf of known index. */
export const HAS_LEAF_INDEX = 4
/** In the table of known notes. */
export const KNOWN = 8
/** The commitment is a finalized leaf. */
export const LANDED = 16
