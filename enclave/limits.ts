/** Bounds the enclave: agent calls, quotes, evidence, certificates and ACME. */

export type EnclaveLimits = {
  /** Longest wait for `/Info` and `/GetKey`. */
  agent_call_ms: number
  /** Longest wait for `/GetQuote`; hardware needs about 40 ms, shared with other machines of the host. */
  quote_call_ms: number
  /** Callers waiting for a quote, without the one in progress. */
  quote_waiting_max: number
  /** A caller that waited longer is rejected: its client has likely given up. */
  quote_wait_ms: number
  /** Interval at which evidence and the quote without nonce are renewed, so that they follow platform updates. */
  evidence_renew_ms: number
  /** Delay of the retry after a failed renewal. */
  evidence_retry_ms: number
}

export const ENCLAVE_LIMITS: EnclaveLimits = {
  agent_call_ms: 5_000,
  quote_call_ms: 10_000,
  quote_waiting_max: 16,
  quote_wait_ms: 5_000,
  evidence_renew_ms: 4 * 3_600_000,
  evidence_retry_ms: 60_000,
}

/** Bytes of one answer of the guest agent: a manifest of 256 KiB, escaped twice, is the longest part of one. */
export const AGENT_ANSWER_BYTES_MAX = 2_097_152

/** Bounds of one order at an ACME authority; tests use others. */
export type AcmeLimits = {
  /** Longest wait for one answer. */
  call_ms: number
  /** Interval of polls of a pending order or challenge, unless the server asks for a longer one. */
  poll_ms: number
  /** Longest wait for one decision. */
  decision_ms: number
}

export const ACME_LIMITS: AcmeLimits = { call_ms: 20_000, poll_ms: 2_000, decision_ms: 180_000 }

/** Longest interval of polls that a server can ask for by `Retry-After`. */
export const ACME_RETRY_AFTER_MAX_MS = 30_000
/** Bytes of one answer; a certificate chain has about ten thousand. */
export const ACME_ANSWER_BYTES_MAX = 256 * 1024
/** A server may reject a nonce at any time; its answer contains the next one. */
export const ACME_NONCE_ATTEMPTS_MAX = 8
/** Longest wait for the DNS API, which may wait for name servers. */
export const ACME_DNS_CALL_MS = 30_000
/** Certificates of an issued chain. */
export const CHAIN_CERTIFICATES_MAX = 8
/** Life of a self-signed certificate. */
export const SELF_SIGNED_LIFE_MS = 90 * 86_400_000
/** Certificates start this long in the past, for clients whose clock is slow. */
export const CLOCK_TOLERANCE_MS = 3_600_000
