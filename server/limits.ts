/** Bounds the server's edge: bytes, sockets, queues, rates and waits. Bounds that clients know are in protocol/. */
import { LIMITS } from '../engine/limits'

/** Declared length above which a request is rejected before anything else and its connection closed, not read to the end. */
export const REQUEST_BYTES_MAX = 1024 * 1024
/** A connection without traffic for this long is closed; sockets get pings. */
export const IDLE_S = 60
/** Characters of a symbol, or of the name of an evidence file, in a path. */
export const PATH_NAME_LENGTH_MAX = 64
/** Characters of a bearer token in a query; ours have 43. */
export const QUERY_TOKEN_LENGTH_MAX = 512
/** Parsed URLs that are kept, and characters of each. */
export const URLS_KEPT_MAX = 2_048
export const URL_CHARACTERS_KEPT_MAX = 512
/** When a caller may retry after a 503 without `retry_after_ms`. */
export const UNAVAILABLE_RETRY_MS = 1_000

/** Quotes take about 40 ms of shared hardware each. Callers with a token have a bucket that anonymous ones cannot drain. */
export const QUOTE_RATES = {
  anonymous: { capacity: 10, refill_per_s: 5 },
  bearer: { capacity: 20, refill_per_s: 15 },
} as const
/** Time from one shared quote to the next, and how long the leading node keeps one that follows from asking for the next. */
export const SHARED_QUOTE_MS = 200
/** Callers of one shared quote, those without an answer, and answers of 13 KB in one turn of the event loop. */
export const QUOTE_CALLERS_MAX = 2_048
export const QUOTE_CALLERS_WAITING_MAX = 16_384
export const QUOTE_ANSWERS_A_TURN = 32
export const LEADER_QUOTE_LATE_MS = 1_000
/** Frames of one socket, of any operation: far above the rate of an account. */
export const FRAME_RATE = { capacity: 500, refill_per_s: 200 } as const

/** Open sockets; each has one subscription of the engine. */
export const SOCKETS_MAX = LIMITS.streams_max
export const ACCOUNT_SOCKETS_MAX = LIMITS.account_streams_max
/** Pending commands of one socket. */
export const REPLIES_MAX = 1_024
/** Events queued while the socket opens; a client further behind receives these and resumes from the last. */
export const EARLY_EVENTS_MAX = 5_000
/** Queued bytes above which the client is too slow and is closed. */
export const OUTBOX_BYTES_MAX = 8 * 1024 * 1024
/** Bytes buffered in the transport: few enough that a close frame behind them arrives soon. */
export const TRANSPORT_BYTES_MAX = 256 * 1024
/** The runtime's bound, above which it drops frames silently: far above ours, which closes a slow client. */
export const BACKPRESSURE_BYTES_MAX = 64 * 1024 * 1024
/** Counts that single messages move are this old at least, and rounded down to this step, when the operator reads them. */
export const METRICS_AGE_MS = 60_000
export const METRICS_STEP = 16
/** Step of the free space that the operator reads. */
export const DISK_STEP_BYTES = 16 * 1024 * 1024
/** Interval of the timer for heartbeats, warnings and expiries. */
export const SOCKETS_TICK_MS = 1_000
/** Interval of heartbeats on an open socket. */
export const HEARTBEAT_MS = 5_000
/** Remaining life of a token at which the socket warns. */
export const EXPIRY_WARNING_MS = 60_000
/** A peer that does not answer the close frame within this time is disconnected. */
export const CLOSE_GRACE_MS = 5_000

/** Bytes of a ClientHello, and records that contain it: far above a usual one, which has one record of at most 2 KB. */
export const HELLO_BYTES_MAX = 16_384
export const HELLO_RECORDS_MAX = 64
/** Bounds of a challenge's front; tests use others. */
export const FRONT_BOUNDS = {
  /** TCP connections of all fronts of a listener; the one beyond it is closed at once. Each has three file descriptors. */
  total: 16_384,
  /** Connections that are undecided at a time, and the bytes kept of them. */
  connections: 1_024,
  bytes: 4 * 1024 * 1024,
  /** Time from the start of a connection until its ClientHello, or the handshake of the challenge, is complete. */
  hello_ms: 10_000,
} as const
/**
 * Part of a front's bounds that is the share of one network. Of the undecided connections and their bytes, 64 or 256 KB: a
 * network above it is displaced first, and below it the oldest connection of all is, as one connection each from many networks
 * would otherwise displace clients who share an address. Of all connections, 1,024.
 */
export const NETWORK_SHARE = 1 / 16
/** Part of all connections, 8,192, below which a network may exceed its share: many clients can share one address. */
export const SHARE_FREE = 1 / 2
/**
 * After this many segments without a decision a connection is read at this interval only: segments of one byte cost the
 * venue more than their sender, and a usual ClientHello has at most two. Beyond these segments, all undecided connections
 * together cause at most 10,240 reads a second.
 */
export const HELLO_SEGMENTS_FREE = 4
export const HELLO_READ_MS = 100

/** Bytes of a proof or frame of a link: an event log has tens of thousands. */
export const LINK_BYTES_MAX = 256 * 1024
/** Bytes of an answer on a link, such as a list of all accounts. */
export const LINK_ANSWER_BYTES_MAX = 16 * 1024 * 1024
/** Questions of a node that wait for their answers, and how far one may overtake another on the way. */
export const LINK_QUESTIONS_MAX = 64
export const LINK_WINDOW = 2 * LINK_QUESTIONS_MAX
/** Commands and reads that a node passed on for its clients and that wait for their answers; beyond it clients get a 503. */
export const LINK_PASSED_MAX = 4_096
/** Bytes of the frames in which they travel, of which one message is a part, and of those that wait for the connection. */
export const LINK_STREAM_BYTES_MAX = 1024 * 1024
export const LINK_STREAM_FILL_BYTES = LINK_STREAM_BYTES_MAX / 4
export const LINK_STREAM_BUFFER_BYTES = 16 * 1024 * 1024
/** Connections for them, and the interval at which it is looked which are lost. */
export const LINK_STREAMS_MAX = 64
export const LINK_STREAMS_LOOK_MS = 1_000
/**
 * A connection ends whose node has shown no life on its link for so long, or without a frame that the node says it sent. The
 * first also bounds how long a new one may be of no link.
 */
export const LINK_SILENT_MS = 5_000
export const LINK_FRAME_LATE_MS = 10_000
/** Open sockets in one message. */
export const LINK_SOCKETS_PART = 2_000
/** Part of a right by which a revocation waits longer than it, as in the engine, and the interval at which it looks. */
export const LINK_RIGHT_WAIT = 1.25
export const LINK_APPLIED_LOOK_MS = 10
/** Longest wait for the answer to a call that a node passes on. */
export const LINK_CALL_MS = 30_000
/** Links that other nodes may open, and keys offered for them. */
export const LINK_RATE = { capacity: 10, refill_per_s: 2 } as const
export const LINKS_MAX = 64
export const LINK_OFFERS_MAX = 256
/** After it a node proves itself again: its build or machine may have been revoked. */
export const LINK_LIFE_MS = 600_000
/** Age at which it does, so that no question comes too late. */
export const LINK_RENEW_MS = 480_000
/**
 * Interval of questions to the leading node, the right that its answer gives, and the pause after a question without an answer.
 */
export const LINK_ASK_MS = 250
export const LINK_RIGHT_MS = 1_000
export const LINK_RETRY_MS = 500
/** Longest wait of requests for the next leading node while this one gives its term away. */
export const LINK_HANDOVER_MS = 10_000
/** Longest wait for a proof: collateral is fetched for it. */
export const LINK_OPEN_MS = 30_000

/** Remaining life at which a self-signed certificate is renewed: a third of its 90 days. */
export const RENEW_BEFORE_MS = 30 * 86_400_000
/** Interval of checks whether a self-signed certificate is due. */
export const CERTIFICATE_CHECK_MS = 3_600_000
/** The same for a public one: authorities limit failed attempts per hour; four stay below the common limits. */
export const PUBLIC_CERTIFICATE_CHECK_MS = 900_000

/** Time for pending requests once the venue has drained. */
export const STOP_GRACE_MS = 5_000
/** How long a node that ends while it has a term waits until it serves and can give the term away. */
export const STOP_OPENING_MS = 10_000
/** Interval at which changes of the status are looked for, to log them. */
export const STATUS_LOOK_MS = 1_000
/** Interval of attempts while the vault is absent or the own machine cannot be judged, and time for the last requests then. */
export const START_RETRY_MS = 5_000
export const PROOF_STOP_GRACE_MS = 1_000
/** Longest wait for one document of the collateral. */
export const COLLATERAL_CALL_MS = 10_000
/** Interval at which a running venue renews the collateral that the next start falls back on; it lives 30 days. */
export const COLLATERAL_CHECK_MS = 6 * 3_600_000
/** Remaining life of the kept collateral from which on the operator is warned. */
export const COLLATERAL_WARNING_MS = 7 * 86_400_000
/** A terminal or service manager signals the whole process group, and npx and `bun run` repeat it: it counts once. */
export const SIGNAL_ECHO_MS = 200
/** Shortest and longest slot of the embedded chain. */
export const EMBEDDED_SLOT_MIN_MS = 20
export const EMBEDDED_SLOT_MAX_MS = 10_000
