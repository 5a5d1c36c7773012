/**
 * Describes what the venue signs: the certificate of its statement key, the binding of one TLS connection
 * (attestation.md "/attestation"), and receipts (engine.md "Receipts"); and what an authority signs about a machine's place.
 */
import { ascii, domain, fixed, struct, u64, type ValueOf, word } from '../codec'

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

/** `registry`: the provider lists the host as its own. `inspected`: a person has looked at the machine. */
export const LOCATION_LEVELS = ['registry', 'inspected'] as const
export type LocationLevel = (typeof LOCATION_LEVELS)[number]

/**
 * The statement of an authority about the place of one machine (attestation.md "Location"), keyed by PPID, so that
 * it is about hardware, and bound to the instance, so that it is about this deployment on it.
 */
const LOCATION = struct({
  domain: domain('tacit/location/1'),
  ppid: fixed(16),
  /** Zeros when the machine has none. */
  instance_id: fixed(20),
  level: word(LOCATION_LEVELS, 1),
  /** Unix seconds; the statement holds from `issued_s` up to and including `expires_s`. */
  issued_s: u64,
  expires_s: u64,
  site: ascii(32),
})
export type LocationBody = ValueOf<typeof LOCATION>
export const LOCATION_BYTES = LOCATION.size!
export const { encode: encodeLocation, decode: decodeLocation } = LOCATION

const LOG_HEAD = struct({
  domain: domain('tacit/loc-log/1'),
  /** Number of statements. */
  size: u64,
  /** Root of the tree over them. */
  root: fixed(32),
})
export const LOG_HEAD_BYTES = LOG_HEAD.size!
export const { encode: encodeLogHead, decode: decodeLogHead } = LOG_HEAD
