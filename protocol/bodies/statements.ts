/**
 * Describes what the venue signs: the certificate of its statement key, the binding of one TLS connection
 * (attestation.md "/attestation"), and receipts (engine.md "Receipts").
 */
import { domain, fixed, struct, u64, type ValueOf } from '../codec'

const STATEMENT = struct({
  domain: domain('tacit/statement1'),
  venue: fixed(32),
  statement_key: fixed(32),
  epoch: u64,
})
/** Signed once per boot by the settlement key. */
export type StatementBody = ValueOf<typeof STATEMENT>
export const STATEMENT_BYTES = STATEMENT.size!
export const { encode: encodeStatement, decode: decodeStatement, shape: STATEMENT_SHAPE } = STATEMENT

const BINDING = struct({
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
/** Ties one connection's TLS key to the attested venue. */
export type BindingBody = ValueOf<typeof BINDING>
export const BINDING_BYTES = BINDING.size!
export const { encode: encodeBinding, decode: decodeBinding, shape: BINDING_SHAPE } = BINDING

/** States that a command is in the journal. */
export const {
  encode: encodeReceipt,
  decode: decodeReceipt,
  shape: RECEIPT_SHAPE,
} = struct({
  domain: domain('tacit/receipt/v1'),
  venue: fixed(32),
  epoch: u64,
  /** Journal seq of the last record of the group. */
  seq: u64,
  /** Journal hash-chain head after the group. */
  head: fixed(32),
  root: fixed(32),
})
