/**
 * Defines the row of a live order in memory: 120 bytes, little-endian. The row has the handle of the order in the book, and
 * omits the fields that the book stores: id, price, arrival batch, remaining lots and, except for fok, the minimum fill.
 */

/** Order id (16), digest (32), id of the replaced order (16, or zeros): the part of an order that its closed record keeps. */
export const IDENTITY_BYTES = 64
export const ID_BYTES = 16
export const DIGEST_BYTES = 32

export const DIGEST_AT = 0
export const NONCE_AT = 32
export const LOTS_AT = 40
/** 48 bits, as are the arrival slot and the seq. */
export const EXPIRY_SLOT_AT = 48
export const ARRIVAL_SLOT_AT = 54
export const SEQ_AT = 60
export const INSTRUMENT_AT = 66
/** Index of the trading key. */
export const KEY_AT = 68
/** Handle of the note that backs the remainder. */
export const COLLATERAL_AT = 72
/** First cell and number of the anchors. */
export const ANCHORS_AT = 76
export const ANCHOR_COUNT_AT = 114
/** Number of the shared text, 0 = none. */
export const ORIGIN_AT = 80
/** Cell with the id of the replaced order, 0 = none. */
export const REPLACES_AT = 84
export const ALL_LINKS_AT = 88
export const KEY_LINKS_AT = 96
export const EXPIRY_LINKS_AT = 104
/** 0 = the row is free, else 1 + index of the status. */
export const STATUS_AT = 112
/** Bit 0: index of the side; bits 1 and 2: index of the type; bit 3: a fok order whose minimum fill is its whole amount. */
export const TERMS_AT = 113
/** Counts the orders this row has held, so that a stale reference is detected. */
export const LIFE_AT = 116
/** Basis points. */
export const FEE_AT = 118
export const ORDER_BYTES = 120

export const SIDES = ['buy', 'sell'] as const
export const TYPES = ['limit', 'ioc', 'fok'] as const
export const LIVE_STATUSES = ['accepted', 'partially_filled'] as const
export const WHOLE_OR_NOTHING = 8
