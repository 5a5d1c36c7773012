/** Declares the enclave's interface, and names every key that the venue asks its guest agent for. */
import type { LINK_SIDES, Quote } from '../protocol/tdx/quote'
import type { EpochBound } from '../protocol/vault/epochs'
import type { Attestation } from '../protocol/wire/trading'

export type EnclaveIdentity = {
  app_id: string
  instance_id: string
  /** 64 hex digits. */
  compose_hash: string
  /** Exact text of the manifest, as the guest agent states it. */
  app_compose: string
  kind: 'dstack' | 'development'
  /** Raw 32-byte Ed25519 public key of the settlement key of this boot; base58 of it is `tee_pubkey`. */
  tee_pubkey: Uint8Array
}
/** The venue, epoch and current slot that `/attestation` binds. */
export type VenueBinding = { venue: Uint8Array; epoch: number; slot: () => number }

export type ProvedKey = 'settlement' | 'epoch_authority' | keyof typeof LINK_SIDES

export type EpochQuote = {
  parsed: Quote
  /** The agent's text. */
  event_log: string
}

export type TlsMaterial = {
  /** PEM certificate chain, leaf first. */
  cert_pem: string
  /** PEM PKCS#8 private key; stays in memory. */
  key_pem: string
  /** SHA-256 of the leaf's SubjectPublicKeyInfo. */
  spki_sha256: Uint8Array
  not_after_ms: number
  /** The ACME account that obtained it; `acme-account.json` of the evidence. Absent for a self-signed one. */
  account_url?: string
}
export interface Enclave {
  readonly identity: EnclaveIdentity
  /** 32 bytes derived for a path; the same for every boot of the app. */
  deriveKey(path: KeyPath): Promise<Uint8Array>
  /** Seed of the settlement key, new for each boot: the vault takes it with a quote over it alone. Never written. */
  readonly settlement_seed: Uint8Array
  /** A quote that binds the settlement key of this boot to an epoch, which the vault program verifies. */
  quoteEpoch(bound: Omit<EpochBound, 'settlement_signer'>): Promise<EpochQuote>
  /**
   * Certifies the statement key of this boot for the venue and the epoch that it opened, from 1 on; must precede receipts.
   * Attestation needs it, or `follow`.
   */
  bind(binding: VenueBinding): Promise<void>
  /** The same for a node that follows or opened no epoch: 0. @throws RangeError for one that has led */
  follow(binding: Omit<VenueBinding, 'epoch'>): void
  /** Seed of the statement key, new for each boot: it signs receipts in the journal's thread. Never written. */
  readonly statement_seed: Uint8Array
  /** Raw statement public key with its certificate by the settlement key. */
  statement(): { key: Uint8Array; certificate: Uint8Array; certificate_signature: Uint8Array }
  /**
   * With a nonce (64 hex digits) a new quote, one at a time behind a short queue; throws Refusal `quote_busy` when the queue
   * is full and `enclave_unavailable` when the agent fails. Without a nonce the cached answer. One that callers share waits for
   * none of one caller alone.
   */
  attestation(nonce_hex?: string, is_shared?: boolean): Promise<Attestation>
  /**
   * A quote over one key alone, before there is a venue to bind: over the settlement key for the own judgement, over the epoch
   * authority for the operator who announces it, or over a side of a link. Nonce and refusals as in `attestation`; a side
   * of a link waits for no caller.
   */
  keyProof(of: ProvedKey, nonce_hex?: string): Promise<Omit<Attestation, 'binding'>>
  readonly tls: TlsMaterial
  /**
   * Replaces the TLS key and certificate, by `next` or else by a self-signed one, and regenerates the evidence with it,
   * atomically.
   */
  rotateTls(next?: TlsMaterial): Promise<TlsMaterial>
  /** An evidence file by name, such as `quote.json`; undefined for an unknown name. */
  evidence(name: string): { content_type: string; body: string } | undefined
  evidenceNames(): string[]
  close(): Promise<void>
}

/**
 * Names every key the venue asks its guest agent for. The path alone selects the 32 bytes, so a changed letter derives
 * another key and data sealed under the old one cannot be opened again. Each path has one purpose and a version; none is reused.
 */
export const KEY_PATHS = {
  /** Seed of the Ed25519 key that signs each opening of an epoch together with the settlement key of the boot. */
  epoch_authority: 'tacit/epoch/ed25519/v1',
  /** Encrypts and authenticates the journal, its snapshots and the history derived from it. */
  journal: 'tacit/journal/v1',
  /** HMAC key of the batch seeds, which order equal priorities (matching.md rule 5). */
  tie_break: 'tacit/tie-break/v1',
  /** HMAC key under which API secrets are stored. */
  credential: 'tacit/credential/v1',
  /** Authenticates the cached hash trees on disk. */
  hashing: 'tacit/hashing/v1',
  /** Seed of the P-256 key of the ACME account. */
  acme_account: 'tacit/acme/account/v1',
  /** Seals the public certificate and its private key on disk. */
  acme_certificate: 'tacit/acme/certificate/v1',
  /** Seed of the Ed25519 key that pays the fees of the venue's transactions. */
  fees: 'tacit/fees/ed25519/v1',
} as const

export type KeyPath = (typeof KEY_PATHS)[keyof typeof KEY_PATHS]
