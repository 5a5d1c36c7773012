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

/** Key paths of the guest agent. The path alone decides the key, so each names purpose and version, never reuse one. */
export const SETTLEMENT_KEY_PATH = 'tacit/settlement/ed25519/v1'
export const JOURNAL_KEY_PATH = 'tacit/journal/v1'
export const TIE_BREAK_KEY_PATH = 'tacit/tie-break/v1'
export const CREDENTIAL_KEY_PATH = 'tacit/credential/v1'
