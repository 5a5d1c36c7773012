/** Composes the answer of `/attestation`: a quote, and a statement that binds venue, instance, TLS key, epoch and slot. */

import { encodeBase58 } from '../protocol/base58'
import { encodeBinding, encodeStatement } from '../protocol/bodies/binding'
import { fromHex, toHex } from '../protocol/bytes'
import type { SigningKey } from '../protocol/ed25519'
import type { Attestation } from '../protocol/wire/trading'
import type { AgentQuote } from './agent'
import type { VenueBinding } from './contract'

/** The statement key's certificate: 88 bytes signed by the settlement key (attestation.md "Endpoints"). */
export type StatementCertificate = { body: Uint8Array; signature: Uint8Array }

export function certifyStatementKey(
  settlement_key: SigningKey,
  statement_key: SigningKey,
  binding: VenueBinding,
): StatementCertificate {
  const { venue, epoch } = binding
  const body = encodeStatement({ venue, statement_key: statement_key.public_key, epoch: BigInt(epoch) })
  return { body, signature: settlement_key.sign(body) }
}

type AttestationParts = {
  quote: AgentQuote
  /** 32 bytes; zeros when the caller sent none. */
  nonce: Uint8Array
  tee_pubkey: Uint8Array
  kind: 'dstack' | 'development'
  /** 40 hex digits or empty. */
  instance_id: string
  spki_sha256: Uint8Array
  venue: Uint8Array
  epoch: number
  slot: number
  statement_key: SigningKey
  certificate: StatementCertificate
}

/** Signs the 148-byte binding body; a machine without instance id binds 20 zero bytes. */
export function composeAttestation(parts: AttestationParts): Attestation {
  const { quote, nonce, tee_pubkey, kind, instance_id, spki_sha256, venue, statement_key, certificate } =
    parts
  const body = encodeBinding({
    venue,
    nonce,
    spki_sha256,
    instance_id: fromHex(instance_id, 20) ?? new Uint8Array(20),
    epoch: BigInt(parts.epoch),
    slot: BigInt(parts.slot),
  })
  return {
    quote: quote.quote,
    event_log: quote.event_log,
    report_data: quote.report_data,
    vm_config: quote.vm_config,
    tee_pubkey: encodeBase58(tee_pubkey),
    enclave: kind,
    binding: {
      body: toHex(body),
      signature: toHex(statement_key.sign(body)),
      certificate: toHex(certificate.body),
      certificate_signature: toHex(certificate.signature),
      statement_key: encodeBase58(statement_key.public_key),
    },
  }
}
