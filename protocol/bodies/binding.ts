/**
 * Encodes the certificate of the statement key and the binding which that key signs for one TLS connection
 * (attestation.md "/attestation").
 */
import { BodyReader, BodyWriter } from './body_layout'

export const STATEMENT_BYTES = 88
const STATEMENT_DOMAIN = 'tacit/statement1'

/** Signed once per boot by the settlement key. */
export type StatementBody = { venue: Uint8Array; statement_key: Uint8Array; epoch: bigint }

export function encodeStatement(body: StatementBody): Uint8Array {
  return new BodyWriter(STATEMENT_BYTES)
    .domain(STATEMENT_DOMAIN)
    .bytes(body.venue, 32)
    .bytes(body.statement_key, 32)
    .u64(body.epoch)
    .done()
}

/** @throws BodyError unless the bytes are the canonical encoding of a body. */
export function decodeStatement(bytes: Uint8Array): StatementBody {
  const reader = new BodyReader(bytes, STATEMENT_BYTES)
  reader.domain(STATEMENT_DOMAIN)
  return { venue: reader.bytes(32), statement_key: reader.bytes(32), epoch: reader.u64() }
}

export const BINDING_BYTES = 148
const BINDING_DOMAIN = 'tacit/binding/v1'

/** Ties one connection's TLS key to the attested venue. */
export type BindingBody = {
  venue: Uint8Array
  /** The caller's nonce; zeros when none was sent. */
  nonce: Uint8Array
  /** SHA-256 of the TLS leaf's SubjectPublicKeyInfo. */
  spki_sha256: Uint8Array
  /** 20 bytes. */
  instance_id: Uint8Array
  epoch: bigint
  slot: bigint
}

export function encodeBinding(body: BindingBody): Uint8Array {
  return new BodyWriter(BINDING_BYTES)
    .domain(BINDING_DOMAIN)
    .bytes(body.venue, 32)
    .bytes(body.nonce, 32)
    .bytes(body.spki_sha256, 32)
    .bytes(body.instance_id, 20)
    .u64(body.epoch)
    .u64(body.slot)
    .done()
}

/** @throws BodyError unless the bytes are the canonical encoding of a body. */
export function decodeBinding(bytes: Uint8Array): BindingBody {
  const reader = new BodyReader(bytes, BINDING_BYTES)
  reader.domain(BINDING_DOMAIN)
  return {
    venue: reader.bytes(32),
    nonce: reader.bytes(32),
    spki_sha256: reader.bytes(32),
    instance_id: reader.bytes(20),
    epoch: reader.u64(),
    slot: reader.u64(),
  }
}
