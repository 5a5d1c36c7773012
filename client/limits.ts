/** States the bounds of the client: waits, retries, answer sizes, searches. */

/** First and longest wait before a lost event stream is opened again; each failure doubles it. */
export const STREAM_RETRY_FIRST_MS = 200
export const STREAM_RETRY_MAX_MS = 5_000

/** Longest silence of an open stream, beyond two heartbeats, before it counts as dead. */
export const STREAM_SILENCE_MS = 1_000
/** Heartbeats until a venue's `hello` says how often it sends them. */
export const STREAM_HEARTBEAT_MS = 5_000
/** First and longest wait before the outcome of a request is asked for again, and how long that continues. */
export const SETTLE_RETRY_FIRST_MS = 50
export const SETTLE_RETRY_MAX_MS = 2_000
export const SETTLE_PATIENCE_MS = 30_000
/** Slots in which an order of a session may trade unless it says otherwise. */
export const ORDER_LIFE_SLOTS = 3_000
/** Longest delay of absorbed events on their way into the wallet's file. */
export const SESSION_SAVE_MS = 50
/** Receipts kept next to a wallet: at least so many, at most twice as many, each some two kilobytes. */
export const RECEIPTS_KEPT_MAX = 4_096
/** Longest wait for the merge of notes that an order needs. */
export const MERGE_MAX_MS = 300_000

/** Longest wait for an answer of a verified venue. */
export const VENUE_CALL_MS = 30_000
/** Wait for an answer after which the other nodes of a venue are asked who leads, again and again. */
export const NODE_LATE_MS = 2_000
/** Wait before a read is repeated while no node of a venue leads. */
export const NODE_RETRY_MS = 100
/** Longest TLS handshake with a venue. */
export const HANDSHAKE_MS = 10_000
/** Longest wait for one answer while evidence is collected. */
export const EVIDENCE_CALL_MS = 10_000
/** Retries of a venue whose quoting hardware is busy, and the longest wait it may ask for. */
export const QUOTE_BUSY_RETRIES_MAX = 3
export const QUOTE_BUSY_WAIT_MAX_MS = 5_000
/** Longest answer of a venue that is not verified yet; quotes and event logs have some ten thousand bytes. */
export const VENUE_ANSWER_BYTES_MAX = 1_048_576
/** Files besides the certificate that a venue may list in its evidence. */
export const EVIDENCE_FILES_MAX = 16
/** Longest document of collateral; a revocation list grows with each revoked machine. */
export const COLLATERAL_BYTES_MAX = 4_194_304
/** Slots that the client's node may be behind the slot that a venue states, or behind another node: a minute. */
export const CHAIN_LAG_SLOTS_MAX = 150
/** Reads of nodes that are behind, or that show different states: 1.4 s of waits in all. */
export const CHAIN_LAG_ATTEMPTS_MAX = 4
/** Longest answer of a location authority: a statement, and a log's head with two paths of 64 nodes in hex. */
export const LOCATION_ANSWER_BYTES_MAX = 16_384
/** Nesting of a measurement document; its parser recurses. */
export const CBOR_DEPTH_MAX = 8
/** Memory ranges of a machine; firmware accepts a handful. */
export const MEMORY_RANGES_MAX = 64

/** Longest wait for one answer of a node, and answers of one read that may be that late. */
export const NODE_CALL_MS = 30_000
export const NODE_TIMEOUTS_MAX = 2
/** Reads of a busy node before its failure counts, and the first wait, which doubles: six seconds in all. */
export const NODE_READ_ATTEMPTS_MAX = 7
export const NODE_READ_WAIT_FIRST_MS = 100
/** Signatures in one page: the most that a node answers. */
export const SIGNATURES_PAGE_MAX = 1_000
/** Transactions read in parallel; public nodes limit more. */
export const TRANSACTIONS_PARALLEL_MAX = 8
/** Slots below an archive's edge that are listed again: a node may list a transaction late. A minute. */
export const LISTED_AGAIN_SLOTS = 150
/** Transactions between two writes of an archive: a reading that is stopped loses at most so many. */
export const ARCHIVE_WRITE_EVERY = 512
/** Transactions of one archive block; with its header it is at most 100 bytes longer, unless one transaction alone is. */
export const ARCHIVE_BLOCK_BYTES = 1_048_576
/** Longest block and longest archive that a reader accepts, and the longest wait for a block of a mirror. */
export const ARCHIVE_BLOCK_BYTES_MAX = 2 * ARCHIVE_BLOCK_BYTES
export const ARCHIVE_BYTES_MAX = 1_073_741_824
export const ARCHIVE_CALL_MS = 30_000
/** Batches read with each batch of a wallet, so that a node does not learn which is the wallet's. */
export const CONFIRM_DECOYS = 3
/** Poll interval of a sent transaction, and polls until the same bytes are sent again. */
export const SEND_POLL_MS = 150
export const SEND_RESEND_POLLS = 10
/** Polls after which a transaction that one node calls expired and another does not ends the wait. */
export const SEND_DISAGREE_POLLS = 60
/** Compute units requested per transaction; a deposit or payment into a full tree, the dearest one, uses fewer. */
export const SEND_COMPUTE_UNITS_MAX = 200_000
/** Seconds between two looks at the claims of a frozen vault, and the most after failures, each of which doubles them. */
export const WATCH_POLL_S = 30
export const WATCH_WAIT_MAX_S = 300
/** A page looks so long, and so often, for a deposit that it sent before it was loaded again: it lands or expires within. */
export const DEPOSIT_SEARCH_MS = 120_000
export const DEPOSIT_SEARCH_POLL_MS = 3_000
/** Longest wait of the market page for one of its reads. */
export const MARKET_CALL_MS = 10_000
/** Poll interval of a balance that a faucet raises. */
export const FAUCET_POLL_MS = 100

/** Wait before a command names on a terminal the operation that it waits for, and between two such lines. */
export const PROGRESS_AFTER_MS = 1_000
export const PROGRESS_EVERY_MS = 5_000
/** Longest wait for the receiver of a forwarded event. */
export const FORWARD_ANSWER_MS = 10_000
/** The most that a trader's clock may differ from the venue's before `doctor` names it. */
export const CLOCK_APART_MAX_MS = 5_000
/** Seconds between two verifications of a watched venue. */
export const WATCH_VENUE_S = 60

/** Unused keys and deposits in a row that end a recovery's search; commands in a row that end it as incomplete. */
export const GAP_LIMITS = { keys: 20, deposits: 1_000, commands: 1_000_000 } as const

/** Longest start of the demo's venue, which may compile and deploy first, and the poll interval. */
export const DEMO_START_MAX_MS = 300_000
export const DEMO_START_POLL_MS = 100
/** Longest wait for the demo's deposits, and the poll interval. */
export const DEMO_DEPOSIT_MAX_MS = 300_000
export const DEMO_DEPOSIT_POLL_MS = 200
/** Longest wait for an event in the demo. */
export const DEMO_EVENT_MAX_MS = 600_000
/** Lifetime of orders and withdrawals in the demo, slots. */
export const DEMO_LIFE_SLOTS = 3_000
