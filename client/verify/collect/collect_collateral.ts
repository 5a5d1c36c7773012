/** Fetches collateral for one quote from Intel's PCS or a cache of it (Intel PCS API v4); judges nothing. */
import { askBounded } from '../../../protocol/ask_bounded'
import { toHex } from '../../../protocol/bytes'
import { type Collateral, readPckPlatform } from '../../../protocol/tdx/collateral'
import { parseQuote } from '../../../protocol/tdx/quote'
import { readCertificate } from '../../../protocol/x509/certificate'
import { COLLATERAL_BYTES_MAX } from '../../limits'
import { Refused } from '../transcript'

export const INTEL_PCS = 'https://api.trustedservices.intel.com'
const INTEL_ROOT_LIST = 'https://certificates.trustedservices.intel.com/IntelSGXRootCA.der'

/** @throws Refused, MalformedQuote */
export async function collectCollateral(
  base_url: string,
  quote: Uint8Array,
  timeout_ms: number,
): Promise<Collateral> {
  const base = base_url.replace(/\/$/, '')
  const [pck, authority] = parseQuote(quote).pck_chain.map(readCertificate)
  if (pck === undefined || authority === undefined) throw new Refused('the quote carries no PCK chain')
  const fmspc = toHex(readPckPlatform(pck).fmspc).toUpperCase()
  const ca = authority.common_name.endsWith('Processor CA') ? 'processor' : 'platform'
  const get = (url: string) => getDocument(url, timeout_ms)
  const [pck_list, tcb, qe, root_list] = await Promise.all([
    get(`${base}/sgx/certification/v4/pckcrl?ca=${ca}&encoding=der`),
    get(`${base}/tdx/certification/v4/tcb?fmspc=${fmspc}`),
    get(`${base}/tdx/certification/v4/qe/identity`),
    get(base === INTEL_PCS ? INTEL_ROOT_LIST : `${base}/sgx/certification/v4/rootcacrl`),
  ])
  const [tcb_info, tcb_info_signature] = signedMember(tcb.text(), 'tcbInfo')
  const [qe_identity, qe_identity_signature] = signedMember(qe.text(), 'enclaveIdentity')
  return {
    pck_crl_issuer_chain: pck_list.chain('SGX-PCK-CRL-Issuer-Chain'),
    pck_crl: pck_list.hex(),
    root_ca_crl: root_list.hex(),
    tcb_info_issuer_chain: tcb.chain('TCB-Info-Issuer-Chain'),
    tcb_info,
    tcb_info_signature,
    qe_identity_issuer_chain: qe.chain('SGX-Enclave-Identity-Issuer-Chain'),
    qe_identity,
    qe_identity_signature,
  }
}

async function getDocument(url: string, timeout_ms: number) {
  const ask = (init: RequestInit) => fetch(url, init)
  const { ok, status, headers, bytes } = await askBounded(ask, COLLATERAL_BYTES_MAX, timeout_ms).catch(
    (error: Error) => {
      throw new Refused(`${new URL(url).host} ${error.message}`)
    },
  )
  if (!ok) throw new Refused(`the collateral service answered ${status}`)
  const text = () => new TextDecoder().decode(bytes)
  return {
    text,
    /** Caches answer a list as hex text, Intel as DER, which starts with 0x30. */
    hex: () => (/^[0-9a-fA-F]+\s*$/.test(text()) ? text().trim().toLowerCase() : toHex(bytes)),
    chain(header: string): string {
      try {
        return decodeURIComponent(headers.get(header) ?? '%')
      } catch {
        throw new Refused(`the collateral service sent no well formed ${header}`)
      }
    },
  }
}

/** The signature covers the member's exact text, so it is cut out instead of parsed and serialized again. */
function signedMember(text: string, member: string): [document: string, signature: string] {
  const match = new RegExp(`^\\s*{"${member}":({.*}),"signature":"([0-9a-fA-F]{128})"}\\s*$`, 's').exec(text)
  if (match === null) throw new Refused('the collateral service answered in another form')
  return [match[1]!, match[2]!]
}
