/** Proves on a link which machine and build a node is, and judges the proof by the clients' verifier. */

import type { Enclave } from '../../enclave/contract'
import { encodeBase58 } from '../../protocol/base58'
import { toHex } from '../../protocol/bytes'
import { LINK_SIDES } from '../../protocol/tdx/quote'
import { Attestation, Info } from '../../protocol/wire/public'
import { exact, type Static, t } from '../../protocol/wire/values'
import type { judgePeer } from '../self_check'
import type { Side } from './sealed_link'

const { quote, event_log, report_data, vm_config, enclave: kind } = Attestation.properties
const { app_id, instance_id } = Info.properties
/** 32 bytes. */
export const Hex = t.String({ pattern: '^[0-9a-f]{64}$' })
export const LinkProof = exact({
  info: exact({ app_id, instance_id, compose_hash: Hex }),
  attestation: exact({ quote, event_log, report_data, vm_config, enclave: kind }),
})
export type LinkProof = Static<typeof LinkProof>

/** @param agreed the hash of the values that both sides agree on. @throws Refusal `enclave_unavailable` */
export async function prove(
  enclave: Pick<Enclave, 'identity' | 'keyProof'>,
  side: Side,
  agreed: Uint8Array,
): Promise<LinkProof> {
  const { tee_pubkey: _side, ...attestation } = await enclave.keyProof(`link_${side}`, toHex(agreed))
  const { app_id, instance_id, compose_hash } = enclave.identity
  return { info: { app_id, instance_id, compose_hash }, attestation }
}

/** In the form of the verifier: the side takes the place of a key. */
export function evidenceOf(
  { info, attestation }: LinkProof,
  side: Side,
  agreed: Uint8Array,
): Parameters<typeof judgePeer>[1] {
  const tee_pubkey = encodeBase58(LINK_SIDES[`link_${side}`])
  return { nonce: toHex(agreed), info: { ...info, tee_pubkey }, attestation: { ...attestation, tee_pubkey } }
}
