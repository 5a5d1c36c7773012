/** Answers as a collateral service in Intel's form does (Intel PCS API v4). */
import type { Collateral } from '../../../client/verify/index'
import { fromHex } from '../../../protocol/bytes'

/** Undefined for a path that the service does not have. */
export function answerCollateral(collateral: Collateral, pathname: string): Response | undefined {
  const chain = (header: string, pem: string) => ({ headers: { [header]: encodeURIComponent(pem) } })
  switch (pathname) {
    case '/sgx/certification/v4/pckcrl':
      return new Response(
        new Uint8Array(fromHex(collateral.pck_crl, collateral.pck_crl.length / 2)!),
        chain('SGX-PCK-CRL-Issuer-Chain', collateral.pck_crl_issuer_chain),
      )
    case '/sgx/certification/v4/rootcacrl':
      return new Response(collateral.root_ca_crl)
    case '/tdx/certification/v4/tcb':
      return new Response(
        `{"tcbInfo":${collateral.tcb_info},"signature":"${collateral.tcb_info_signature}"}`,
        chain('TCB-Info-Issuer-Chain', collateral.tcb_info_issuer_chain),
      )
    case '/tdx/certification/v4/qe/identity':
      return new Response(
        `{"enclaveIdentity":${collateral.qe_identity},"signature":"${collateral.qe_identity_signature}"}`,
        chain('SGX-Enclave-Identity-Issuer-Chain', collateral.qe_identity_issuer_chain),
      )
  }
  return undefined
}
