/** Check 5.2: the settlement key certifies the statement key, which ties venue, nonce, instance, epoch and TLS key. */
import { decodeBase58 } from '../../../protocol/base58'
import { BINDING_BYTES, decodeBinding } from '../../../protocol/binding'
import { equalBytes, fromHex, toHex } from '../../../protocol/bytes'
import { decodeStatement, STATEMENT_BYTES } from '../../../protocol/statement'
import type { Attestation } from '../../../protocol/wire_public'
import { isSignedByEd25519 } from '../ed25519_web'
import { Refused, requireThat } from '../refused'
import { established, type RunCheck } from './verification_case'

export const checkBinding: RunCheck = async (verification) => {
  const { info, attestation, nonce } = verification.bundle
  // Without the quote nothing says whose key signs below.
  established(verification, 'genuine')
  const { instance_id } = established(verification, 'claims')
  const signed = readSigned(attestation)
  requireThat(
    await isSignedByEd25519(signed.certificate_signature, signed.certificate, signed.tee_pubkey),
    'the statement key is not certified by the settlement key',
  )
  requireThat(
    await isSignedByEd25519(signed.signature, signed.body, signed.statement_key),
    'the binding is not signed by the statement key',
  )
  const statement = decodeStatement(signed.certificate)
  const binding = decodeBinding(signed.body)
  requireThat(equalBytes(statement.statement_key, signed.statement_key), 'another statement key is certified')
  requireThat(equalBytes(statement.venue, binding.venue), 'the statement key is certified for another venue')
  requireThat(statement.epoch === binding.epoch, 'the statement key is certified for another epoch')
  requireThat(toHex(binding.venue) === info.venue, 'the binding is of another venue')
  requireThat(toHex(binding.nonce) === nonce, 'the binding answers another nonce')
  const expected_instance = instance_id.length === 0 ? new Uint8Array(20) : instance_id
  requireThat(equalBytes(binding.instance_id, expected_instance), 'the binding is of another instance')
  requireThat(binding.epoch === BigInt(info.epoch), 'the binding is of another epoch')
  verification.established.binding = binding
  return {
    venue: info.venue,
    epoch: String(binding.epoch),
    slot: String(binding.slot),
    statement_key: attestation.binding.statement_key,
  }
}

function readSigned({ binding, tee_pubkey }: Attestation) {
  const fields = {
    body: fromHex(binding.body, BINDING_BYTES),
    signature: fromHex(binding.signature, 64),
    certificate: fromHex(binding.certificate, STATEMENT_BYTES),
    certificate_signature: fromHex(binding.certificate_signature, 64),
    statement_key: decodeBase58(binding.statement_key, 32),
    tee_pubkey: decodeBase58(tee_pubkey, 32),
  }
  if (Object.values(fields).includes(undefined)) throw new Refused('the binding is malformed')
  return fields as { [K in keyof typeof fields]: Uint8Array }
}
