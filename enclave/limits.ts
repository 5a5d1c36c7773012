/** Every bound of the enclave module. */
export type EnclaveLimits = {
  /** Longest wait for `/Info` and `/GetKey`. */
  agent_call_ms: number
  /** Longest wait for `/GetQuote`; hardware needs about 40 ms, shared with other machines of the host. */
  quote_call_ms: number
  /** Callers waiting for a quote beside the one being made. */
  quote_waiting_max: number
  /** A caller who waited longer is refused instead of served: its client has likely gone. */
  quote_wait_ms: number
  /** Evidence and the nonce-less quote are renewed this often, so that they follow platform updates. */
  evidence_renew_ms: number
  /** Next attempt after a failed renewal. */
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

/** Bounds of one order at an ACME authority; a test may set its own. */
export type AcmeLimits = {
  /** Longest wait for one answer. */
  call_ms: number
  /** Between two looks at a pending order or challenge, unless it asks for more. */
  poll_ms: number
  /** Longest wait for one decision. */
  decision_ms: number
}

export const ACME_LIMITS: AcmeLimits = { call_ms: 20_000, poll_ms: 2_000, decision_ms: 180_000 }

/** Longest pause between two looks a server may ask for: patience, not a standstill. */
export const ACME_RETRY_AFTER_MAX_MS = 30_000
/** Bytes of one answer; a chain of certificates has some ten thousand. */
export const ACME_ANSWER_BYTES_MAX = 256 * 1024
/** A server may refuse a nonce for reasons of its own and hands out the next with the refusal. */
export const ACME_NONCE_ATTEMPTS_MAX = 8
/** Longest wait for the DNS API, which may wait for its name servers. */
export const ACME_DNS_CALL_MS = 30_000
/** Certificates of an issued chain. */
export const CHAIN_CERTIFICATES_MAX = 8
/** Life of a self-signed certificate. */
export const SELF_SIGNED_LIFE_MS = 90 * 86_400_000
/** Clients judge validity by their own clock; a start in the past absorbs clocks that run behind. */
export const CLOCK_TOLERANCE_MS = 3_600_000
