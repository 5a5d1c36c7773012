/** States the bounds of the server's edge: bytes, sockets, queues, rates and waits. Bounds that clients know are in protocol/. */
import { LIMITS } from '../engine/limits'

/** Beyond this the runtime itself answers 413; up to it our own answer keeps the order of checks. */
export const REQUEST_BYTES_MAX = 1024 * 1024
/** A connection without traffic for this long is closed; sockets get pings. */
export const IDLE_S = 60
/** Characters of a symbol, or of the name of an evidence file, in a path. */
export const PATH_NAME_LENGTH_MAX = 64
/** Characters of a bearer token in a query; ours have 43. */
export const QUERY_TOKEN_LENGTH_MAX = 512
/** Characters of an api key, and of a secret or passphrase, before they are hashed. */
export const API_KEY_LENGTH_MAX = 128
export const SECRET_LENGTH_MAX = 256
/** Faults of one value that are looked at: 16 KB can hold thousands; the earliest codes are among the first. */
export const FAULTS_MAX = 64
/** Items of a page, and leaves, where the caller names no number. */
export const PAGE_ITEMS_DEFAULT = 100
export const PAGE_LEAVES_DEFAULT = 1_000
/** When a caller may retry after an answer 503 that names no time. */
export const UNAVAILABLE_RETRY_MS = 1_000

/** Attestation quotes, about 40 ms of shared hardware each. Callers with a token have a bucket that strangers cannot drain. */
export const QUOTE_RATES = {
  anonymous: { capacity: 10, refill_per_s: 5 },
  bearer: { capacity: 20, refill_per_s: 15 },
} as const
/** Frames of one socket, whatever they ask: far above the rate of an account. */
export const FRAME_RATE = { capacity: 500, refill_per_s: 200 } as const

/** Open sockets; each follows one stream of the engine. */
export const SOCKETS_MAX = LIMITS.streams_max
export const ACCOUNT_SOCKETS_MAX = LIMITS.account_streams_max
/** Commands of one socket that may be under way. */
export const REPLIES_MAX = 1_024
/** Events that may wait while the socket opens; a reader further behind gets these and resumes from the last. */
export const EARLY_EVENTS_MAX = 5_000
/** Bytes that may wait before the reader counts as too slow. */
export const OUTBOX_BYTES_MAX = 8 * 1024 * 1024
/** Bytes the transport holds: a close frame behind them still arrives soon. */
export const TRANSPORT_BYTES_MAX = 256 * 1024
/** The runtime's own bound, which drops frames without notice: far above ours, which closes a slow reader. */
export const BACKPRESSURE_BYTES_MAX = 64 * 1024 * 1024
/** Between two rounds of heartbeats, warnings and expiries. */
export const SOCKETS_TICK_MS = 1_000
/** Longest silence of the venue on an open socket. */
export const HEARTBEAT_MS = 5_000
/** How long before its end an expiring token is announced. */
export const EXPIRY_WARNING_MS = 60_000
/** A peer that does not answer the close frame within this time is cut. */
export const CLOSE_GRACE_MS = 5_000

/** First bytes of a TLS client that are kept to read the protocols it offers: far above a usual ClientHello. */
export const HELLO_BYTES_MAX = 16_384
/** Longest wait for these bytes. */
export const HELLO_MS = 10_000
/** Remaining life at which a self-signed certificate is renewed: a third of its 90 days. */
export const RENEW_BEFORE_MS = 30 * 86_400_000
/** Between two looks at a self-signed certificate. */
export const CERTIFICATE_LOOK_MS = 3_600_000
/** The same of a public one: authorities count failed attempts by the hour; four stay below the common limits. */
export const PUBLIC_CERTIFICATE_LOOK_MS = 900_000

/** Time for requests under way once the venue has drained. */
export const STOP_GRACE_MS = 5_000
/** Between two looks at the chain while the vault is absent, and time for requests under way once it exists. */
export const VAULT_LOOK_MS = 5_000
export const VAULT_STOP_GRACE_MS = 1_000
/** A terminal sends Ctrl-C to the whole group, and npx and `bun run` repeat it: within this time it counts once. */
export const SIGNAL_ECHO_MS = 500
/** Shortest and longest slot of the embedded chain. */
export const EMBEDDED_SLOT_MIN_MS = 20
export const EMBEDDED_SLOT_MAX_MS = 10_000
