/** States the bounds both sides of the wire must agree on. Widths and layouts stay with their bodies. */

/** Bytes of a request body: room for the largest, a cancel-all of 64 keys. */
export const BODY_BYTES_MAX = 16_384
/** Bytes of a socket frame from the client: a body with its id. */
export const FRAME_BYTES_MAX = 16_384
/** Characters of a frame's id, which is held until the answer repeats it. */
export const FRAME_ID_LENGTH_MAX = 64
/** Characters of an api key, and of a secret or passphrase, before they are hashed. */
export const API_KEY_LENGTH_MAX = 128
export const SECRET_LENGTH_MAX = 256
/** Events, orders or fills of one page: bounds the cost of one read. */
export const PAGE_ITEMS_MAX = 500
/** Leaves of one page: 670 KB of text. */
export const PAGE_LEAVES_MAX = 10_000
/** Items of a page, and leaves, where the query has no `limit`. */
export const PAGE_ITEMS_DEFAULT = 100
export const PAGE_LEAVES_DEFAULT = 1_000

/** Continuation anchors of one order: each is stored as long as the order lives. */
export const ANCHORS_MAX = 16
/** Keys of one cancel-all, each with a signature to verify. */
export const CANCEL_ALL_MAX = 64
/** Inputs, and outputs, of one reshape: the slots of its signed body. */
export const RESHAPE_NOTES_MAX = 4
/** Longest dead-man timer: about a day of 200 ms slots. */
export const DEAD_MAN_SLOTS_MAX = 432_000
/** Decimals of a mint: a u64 still holds whole tokens. */
export const MINT_DECIMALS_MAX = 18

/** Nodes in the path of a receipt: a group has at most 2^32 commands. */
export const RECEIPT_PATH_MAX = 32
/** Siblings between a caller's nonce and that of the quote which it shares. */
export const NONCE_PATH_MAX = 64

/** Capacity, and refill per second, an account record may grant: beyond it a limit limits nothing. */
export const ACCOUNT_RATE_MAX = 1_000_000
/** Live orders an account record may grant: all a venue holds. */
export const ACCOUNT_ORDERS_LIVE_MAX = 1_000_000
/** Trading keys an account record may grant; the venue keeps the nonces of each. */
export const ACCOUNT_KEYS_MAX = 10_000
/** Longest life of a scrape token, which no call revokes, in seconds: 400 days. */
export const SCRAPE_TOKEN_LIFE_MAX_S = 400 * 86_400
/** Longest validity of a signed operator call. */
export const OPERATOR_CALL_LIFE_MAX_S = 300

/** Bounds of one `settle` that the vault program enforces; a v1 transaction's 4,096 bytes end earlier. */
export const SETTLE_LIMITS = { nullifiers: 56, outputs: 80, payouts: 24, payout_mints: 8 } as const
/** Entries of one `pay`; the vault program has the same bound. */
export const PAY_ENTRIES_MAX = 8
/** Account data a transaction may load: the runtime's maximum, because strangers choose the size of some accounts. */
export const LOADED_ACCOUNTS_BYTES_MAX = 64 * 1_048_576
/** Data of one inner instruction (Agave, MAX_INSTRUCTION_DATA_LEN: 10 KiB), as base58: longer text is not decoded. */
export const INNER_DATA_CHARACTERS_MAX = Math.ceil(10_240 * 1.366)
/** Longest answer of a JSON-RPC endpoint: a program of 10 MiB, the largest there is, in base64. */
export const RPC_ANSWER_BYTES_MAX = 16_777_216
/** Program addresses kept, because each derivation costs curve arithmetic; the map is emptied beyond it. */
export const ADDRESSES_KEPT_MAX = 1_024
/** Entries of a boot event log; firmware and boot write some hundred. */
export const BOOT_EVENTS_MAX = 4_096
/** Name and payload of one runtime event; the vault program has the same bounds. */
export const BOOT_EVENT_NAME_MAX = 255
export const BOOT_EVENT_PAYLOAD_MAX = 1_024
/** PEM text of the three certificates in a quote; Intel's have some 4,000 bytes. */
export const PCK_CHAIN_BYTES_MAX = 32_768
/** Levels of the note tree and of the spent log; the vault program has the same. */
export const TREE_DEPTH = 40
/** Bytes of a DER length; no certificate or list reaches 16 MB. */
export const DER_LENGTH_BYTES_MAX = 3
