/**
 * Describes what the venue signs: the certificate of its statement key, the binding of one TLS connection
 * (attestation.md "/attestation"), and receipts (engine.md "Receipts").
 */
import { domain, fixed, struct, u64, type ValueOf } from '../codec'

/** Signed once per boot by the settlement key. */
export const STATEMENT_BODY = struct({
  domain: domain('tacit/statement1'),
  venue: fixed(32),
  statement_key: fixed(32),
  epoch: u64,
})
export type StatementBody = ValueOf<typeof STATEMENT_BODY>
export const STATEMENT_BYTES = STATEMENT_BODY.size!

/** Ties one connection's TLS key to the attested venue. */
export const BINDING_BODY = struct({
  domain: domain('tacit/binding/v1'),
  venue: fixed(32),
  /** The caller's nonce; zeros when none was sent. */
  nonce: fixed(32),
  /** SHA-256 of the TLS leaf's SubjectPublicKeyInfo. */
  spki_sha256: fixed(32),
  instance_id: fixed(20),
  epoch: u64,
  slot: u64,
})
export type BindingBody = ValueOf<typeof BINDING_BODY>
export const BINDING_BYTES = BINDING_BODY.size!

/** States that a command is in the journal. */
export const RECEIPT_BODY = struct({
  domain: domain('tacit/receipt/v1'),
  venue: fixed(32),
  epoch: u64,
  /** Journal seq of the last record of the group. */
  seq: u64,
  /** Journal hash-chain head after the group. */
  head: fixed(32),
  root: fixed(32),
})
