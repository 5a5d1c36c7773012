/** The statement key's certificate: what the settlement key signs once per boot (attestation.md "/attestation"). */
import { BodyReader, BodyWriter } from './body_layout'

export const STATEMENT_BYTES = 88
const DOMAIN = 'tacit/statement1'

export type StatementBody = { venue: Uint8Array; statement_key: Uint8Array; epoch: bigint }

export function encodeStatement(body: StatementBody): Uint8Array {
  return new BodyWriter(STATEMENT_BYTES)
    .domain(DOMAIN)
    .bytes(body.venue, 32)
    .bytes(body.statement_key, 32)
    .u64(body.epoch)
    .done()
}

/** @throws BodyError unless the bytes are the canonical encoding of a body. */
export function decodeStatement(bytes: Uint8Array): StatementBody {
  const reader = new BodyReader(bytes, STATEMENT_BYTES)
  reader.domain(DOMAIN)
  return { venue: reader.bytes(32), statement_key: reader.bytes(32), epoch: reader.u64() }
}
