/** The row of a live order: 176 bytes, little-endian. Its handle is the one the book gave it. */

/** Order id (16), digest (32), id of the order it replaces (16, or zeros): together what a final order keeps. */
export const IDENTITY_BYTES = 64
export const DIGEST_AT = 16
export const REPLACES_AT = 48
export const NONCE_AT = 64
export const LOTS_AT = 72
export const REMAINING_AT = 80
export const MIN_LOTS_AT = 88
export const EXPIRY_SLOT_AT = 96
export const ARRIVAL_SLOT_AT = 104
export const SEQ_AT = 112
export const TICKS_AT = 120
export const ARRIVAL_BATCH_AT = 124
/** Index of the trading key. */
export const KEY_AT = 128
/** Handle of the note that backs what remains. */
export const COLLATERAL_AT = 132
/** First cell of the anchors, and how many there are. */
export const ANCHORS_AT = 136
export const ANCHOR_COUNT_AT = 173
/** Number of the shared text, 0 = none. */
export const ORIGIN_AT = 140
export const ALL_LINKS_AT = 144
export const KEY_LINKS_AT = 152
export const EXPIRY_LINKS_AT = 160
/** Index of the instrument. */
export const INSTRUMENT_AT = 168
/** 0 = no order lies here, else 1 + its place among the statuses. */
export const STATUS_AT = 170
/** Bit 0: its place among the sides; bits 1 and 2: among the types; bit 3: replaces an order. */
export const TERMS_AT = 171
/** Counts the orders that lay in this row, so that a reference to an earlier one is told apart. */
export const LIFE_AT = 174
export const ORDER_BYTES = 176

export const SIDES = ['buy', 'sell'] as const
export const TYPES = ['limit', 'ioc', 'fok'] as const
export const LIVE_STATUSES = ['accepted', 'partially_filled'] as const
export const REPLACES = 8
