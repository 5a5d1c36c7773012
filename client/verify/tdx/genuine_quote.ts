/** Judges whether real hardware made a quote, and whether its trust domain is admissible. */
import { concatBytes, equalBytes, fromHex, isZero, toHex } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import { type PckPlatform, readPckPlatform } from '../../../protocol/tdx/collateral'
import { parseQuote, type QeReport, type Quote, type TdReport, tdFault } from '../../../protocol/tdx/quote'
import { type Certificate, readCertificate, USAGE } from '../../../protocol/x509/certificate'
import { isSignedBy } from '../../../protocol/x509/der'
import { Refused, requireThat } from '../transcript'
import {
  type OpenedCollateral,
  requireCollateralCurrent,
  requireCurrent,
  requireIssuedBy,
  requireNotRevoked,
  requireRole,
  requireRoot,
  requireUnderRoot,
} from './collateral'
import { matchesMasked, type PlatformPolicy, requirePlatform, type TcbFinding } from './platform'

/** @throws Refused when the trust domain or its TDX module breaks a rule */
export function requireMachine(report: TdReport): void {
  const fault = tdFault(report)
  if (fault !== undefined) throw new Refused(fault)
}

/** INIT and MODE64BIT; PROVISION_KEY, bit 2, is free. DEBUG, bit 1, would show the attestation key to the host. */
const QE_FLAGS = fromHex('1100000000000000', 8)!
const QE_FLAGS_MASK = fromHex('fbffffffffffffff', 8)!
/** Product id of Intel's TD quoting enclave. */
const TD_QE = 2

/** Rules that no collateral can relax; signer and version follow from Intel's QE identity. @throws Refused */
function requireQuotingEnclave({ attributes, misc_select, isv_prod_id }: QeReport): void {
  requireThat((attributes[0]! & 2) === 0, 'the quoting enclave is under debug')
  const flags = attributes.subarray(0, QE_FLAGS.length)
  requireThat(matchesMasked(flags, QE_FLAGS_MASK, QE_FLAGS), 'the quoting enclave has other attributes')
  requireThat(isZero(misc_select), 'the quoting enclave has other miscselect bits')
  requireThat(isv_prod_id === TD_QE, 'the quoting enclave is another product')
}

export type GenuineQuote = { quote: Quote; platform: PckPlatform }

/** Intel's vendor id in the quote header. */
const INTEL_QE_VENDOR = fromHex('939a7233f79c4ca9940a0db3957f0607', 16)!

/** Verifies every signature from the TD report up to a trusted root, none revoked. @throws Refused, MalformedQuote */
export async function verifyGenuine(
  bytes: Uint8Array,
  collateral: OpenedCollateral,
  now_ms: number,
): Promise<GenuineQuote> {
  requireCollateralCurrent(collateral, now_ms)
  const quote = parseQuote(bytes)
  requireThat(equalBytes(quote.qe_vendor_id, INTEL_QE_VENDOR), 'the quoting enclave is not from Intel')
  const pck = await verifyPckChain(quote, collateral, now_ms)
  const platform = readPckPlatform(pck)
  const { tcb_info } = collateral
  requireThat(equalBytes(platform.fmspc, tcb_info.fmspc), 'TCB info is for another platform (FMSPC)')
  requireThat(equalBytes(platform.pce_id, tcb_info.pce_id), 'TCB info is for another PCE')
  const [report_signed, quote_signed] = await Promise.all([
    isSignedBy(pck.public_key, quote.qe_report_bytes, quote.qe_report_signature),
    isSignedBy(quote.attestation_key, quote.signed, quote.signature),
  ])
  requireThat(report_signed, 'the quoting enclave report is not signed by the PCK')
  const key_hash = sha256(quote.attestation_key, quote.qe_auth_data)
  const certified = concatBytes(key_hash, new Uint8Array(32))
  requireThat(equalBytes(quote.qe_report.report_data, certified), 'the attestation key is not certified')
  requireThat(quote_signed, 'the quote is not signed by its attestation key')
  requireQuotingEnclave(quote.qe_report)
  return { quote, platform }
}

/** @returns the PCK certificate of the quote's chain */
async function verifyPckChain(
  quote: Quote,
  collateral: OpenedCollateral,
  now_ms: number,
): Promise<Certificate> {
  if (quote.pck_chain.length !== 3) throw new Refused('the PCK chain is not three certificates')
  const [pck, authority, root] = quote.pck_chain.map(readCertificate) as [
    Certificate,
    Certificate,
    Certificate,
  ]
  const known = collateral.pck_authority
  const same_chain = equalBytes(root.der, collateral.root.der) && equalBytes(authority.der, known.der)
  if (!same_chain) {
    await requireRoot(root, collateral.roots, now_ms)
    await requireUnderRoot(authority, root, 'pck_authority', now_ms)
    requireNotRevoked(authority, collateral.root_list)
  }
  // The revocation list is valid only for the authority that signed it.
  const same_authority =
    equalBytes(authority.subject, known.subject) && equalBytes(authority.public_key, known.public_key)
  requireThat(same_authority, 'the revocation list is of another PCK authority')
  requireRole(pck, 'pck')
  requireThat(pck.mayDo(USAGE.digital_signature), 'the PCK may not sign')
  requireCurrent(pck, now_ms)
  await requireIssuedBy(pck, authority, 0)
  requireNotRevoked(pck, collateral.pck_list)
  return pck
}

type VerifiedQuote = GenuineQuote & { finding: TcbFinding }

/** The periods of the collateral are judged again at this `now_ms`. @throws Refused, MalformedQuote */
export async function verifyUnderCollateral(
  bytes: Uint8Array,
  collateral: OpenedCollateral,
  policy: PlatformPolicy,
  now_ms: number,
): Promise<VerifiedQuote> {
  const genuine = await verifyGenuine(bytes, collateral, now_ms)
  const finding = requirePlatform(genuine, collateral, policy)
  requireMachine(genuine.quote.report)
  return { ...genuine, finding }
}

/** The facts of a verified quote, for a log. */
export function describePlatform(
  { platform }: GenuineQuote,
  finding: TcbFinding,
  collateral: OpenedCollateral,
): Record<string, string> {
  return {
    tcb_status: finding.status,
    tcb_date: finding.tcb_date,
    advisories: finding.advisories.join(' ') || 'none',
    tcb_evaluation_number: String(collateral.tcb_info.evaluation_number),
    fmspc: toHex(platform.fmspc),
    ppid: toHex(platform.ppid),
  }
}
