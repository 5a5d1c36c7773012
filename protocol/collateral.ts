/** What a verifier needs beside a quote, in the form that dcap-qvl and Intel's PCS answers share. */

/** Chains are PEM, leaf first, root last; revocation lists and signatures are hex; the two documents are exact JSON text. */
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
