/** States the form of the collateral that verifies a TDX quote, and Intel's root key. */
import { fromHex } from '../bytes'

/**
 * The Intel SGX Root CA key, valid since 2018-05-21: raw P-256 point x ‖ y, 64 bytes. Only a quote under this root comes
 * from real hardware. Source: "Intel SGX PCK Certificate and CRL Profile Specification".
 */
export const INTEL_ROOT_KEY: Uint8Array = fromHex(
  '0ba9c4c0c0c86193a3fe23d6b02cda10a8bbd4e88e48b4458561a36e705525f5' +
    '67918e2edc88e40d860bd0cc4ee26aacc988e505a953558c453f6b0904ae7394',
  64,
)!

/**
 * The form that dcap-qvl and Intel's PCS answers share: chains are PEM, leaf first, root last; revocation lists and
 * signatures are hex; the two documents are exact JSON text.
 */
export type Collateral = {
  pck_crl_issuer_chain: string
  root_ca_crl: string
  pck_crl: string
  tcb_info_issuer_chain: string
  /** The signed bytes: TDX TCB info version 3. */
  tcb_info: string
  /** ECDSA P-256, r ‖ s. */
  tcb_info_signature: string
  qe_identity_issuer_chain: string
  /** The signed bytes: TD_QE identity version 2. */
  qe_identity: string
  qe_identity_signature: string
}
