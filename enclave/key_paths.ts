/**
 * Names every key the venue asks its guest agent for. The path alone selects the 32 bytes, so a changed letter derives
 * another key and data sealed under the old one cannot be opened again. Each path has one purpose and a version; none is reused.
 */
export const KEY_PATHS = {
  /** Seed of the Ed25519 key that signs each opening of an epoch beside the settlement key of the boot. */
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
