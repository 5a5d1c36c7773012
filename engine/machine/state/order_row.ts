/**
 * The row of a live order: 118 bytes, little-endian. Its handle is the one the book gave it, and what the book keeps of it
 * stands there alone: id, price, arrival batch, what remains and, but for fok orders, the minimum fill.
 */

/** Order id (16), digest (32), id of the order it replaces (16, or zeros): together what a final order keeps. */
export const IDENTITY_BYTES = 64
export const ID_BYTES = 16
export const DIGEST_BYTES = 32

export const DIGEST_AT = 0
export const NONCE_AT = 32
export const LOTS_AT = 40
/** 48 bits, as are the other slots and the seq. */
export const EXPIRY_SLOT_AT = 48
export const ARRIVAL_SLOT_AT = 54
export const SEQ_AT = 60
/** Index of the instrument. */
export const INSTRUMENT_AT = 66
/** Index of the trading key. */
export const KEY_AT = 68
/** Handle of the note that backs what remains. */
export const COLLATERAL_AT = 72
/** First cell of the anchors, and how many there are. */
export const ANCHORS_AT = 76
export const ANCHOR_COUNT_AT = 114
/** Number of the shared text, 0 = none. */
export const ORIGIN_AT = 80
/** Cell of the id of the order it replaces, 0 = none. */
export const REPLACES_AT = 84
export const ALL_LINKS_AT = 88
export const KEY_LINKS_AT = 96
export const EXPIRY_LINKS_AT = 104
/** 0 = no order lies here, else 1 + its place among the statuses. */
export const STATUS_AT = 112
/** Bit 0: its place among the sides; bits 1 and 2: among the types; bit 3: a fok order whose minimum fill is all of it. */
export const TERMS_AT = 113
/** Counts the orders that lay in this row, so that a reference to an earlier one is told apart. */
export const LIFE_AT = 116
export const ORDER_BYTES = 118

export const SIDES = ['buy', 'sell'] as const
export const TYPES = ['limit', 'ioc', 'fok'] as const
export const LIVE_STATUSES = ['accepted', 'partially_filled'] as const
export const WHOLE_OR_NOTHING = 8
