/** Opens collateral: verifies chains of certificates, revocation lists and every signature up to a trusted root. */
import { equalBytes, fromAnyHex, utf8 } from '../../../protocol/bytes'
import { type Collateral, INTEL_ROOT_KEY } from '../../../protocol/tdx/collateral'
import {
  type Certificate,
  derOfPem,
  openSigned,
  readCertificate,
  readExtensions,
  refuseUnknownCritical,
  USAGE,
} from '../../../protocol/x509/certificate'
import {
  context,
  type DerReader,
  isSignedBy,
  MalformedDer,
  readSerial,
  readSmallInteger,
  readTime,
  TAG,
} from '../../../protocol/x509/der'
import { JsonObject, parseJson } from '../json_document'
import { Refused, requireThat } from '../transcript'
import { type QeIdentity, readQeIdentity, readTcbInfo, type TcbInfo } from './platform'

const FIELDS = [
  'pck_crl_issuer_chain',
  'root_ca_crl',
  'pck_crl',
  'tcb_info_issuer_chain',
  'tcb_info',
  'tcb_info_signature',
  'qe_identity_issuer_chain',
  'qe_identity',
  'qe_identity_signature',
] as const satisfies readonly (keyof Collateral)[]

/**
 * Other text fields are ignored, as some tools add a PCK chain; a field of another type is an error, because the file is then
 * not collateral.
 * @throws Refused naming the field
 */
export function readCollateralValue(value: unknown): Collateral {
  const document = JsonObject.of(value, 'the collateral')
  for (const [field, member] of Object.entries(value as object))
    if (typeof member !== 'string' && member !== null)
      throw new Refused(`the collateral has no well formed ${field}`)
  return Object.fromEntries(FIELDS.map((field) => [field, document.text(field)])) as Collateral
}

/** The same from text. @throws Refused */
export function parseCollateral(text: string): Collateral {
  return readCollateralValue(parseJson(text))
}

/** The root keys of a verifier, raw P-256 points of 64 bytes: Intel's, or exactly those of its policy. */
export type TrustedRoots = readonly Uint8Array[]

export const INTEL_ROOTS: TrustedRoots = [INTEL_ROOT_KEY]

/** Keys of the certificates in `roots_pem`; Intel's when absent. @throws Refused when the text is not certificates. */
export function trustedRoots(roots_pem: string | undefined): TrustedRoots {
  if (roots_pem === undefined) return INTEL_ROOTS
  const certificates = derOfPem(roots_pem, 'CERTIFICATE')
  if (certificates === undefined) throw new Refused('the given roots are not PEM certificates')
  return certificates.map((der) => new Uint8Array(readCertificate(der).public_key))
}

function isTrusted(roots: TrustedRoots, public_key: Uint8Array): boolean {
  return roots.some((root) => equalBytes(root, public_key))
}

/** True when Intel's key is the only trusted one. */
export function onlyIntel(roots: TrustedRoots): boolean {
  return roots.length > 0 && roots.every((root) => equalBytes(root, INTEL_ROOT_KEY))
}

/**
 * Roles in Intel's attestation PKI by the end of the common name ("SGX PCK Certificate and CRL Profile Specification",
 * section 1.3): a key extracted from one machine must not sign for Intel.
 */
const ROLES = {
  root: [' SGX Root CA'],
  pck_authority: [' SGX PCK Platform CA', ' SGX PCK Processor CA'],
  pck: [' SGX PCK Certificate'],
  tcb_signing: [' SGX TCB Signing'],
} as const
type Role = keyof typeof ROLES

export function requireRole(certificate: Certificate, role: Role): void {
  const held = ROLES[role].some((ending) => certificate.common_name.endsWith(ending))
  requireThat(held, `a certificate is used in the role ${role} without having it`)
  const authority = role === 'root' || role === 'pck_authority'
  requireThat(
    certificate.basic_constraints.ca === authority,
    `the ${role} certificate's constraints are wrong`,
  )
}

/** A certificate directly under a trusted root, with that root: every issuer chain in collateral has this form. */
type IssuerChain = { issuer: Certificate; root: Certificate }

/** @throws Refused unless the text is exactly two certificates in these roles and the root is trusted. */
async function openIssuerChain(
  pem: string,
  role: 'pck_authority' | 'tcb_signing',
  roots: TrustedRoots,
  now_ms: number,
): Promise<IssuerChain> {
  const ders = derOfPem(pem, 'CERTIFICATE')
  if (ders?.length !== 2) throw new Refused('an issuer chain is not two certificates')
  const [issuer, root] = ders.map(readCertificate) as [Certificate, Certificate]
  await requireRoot(root, roots, now_ms)
  await requireUnderRoot(issuer, root, role, now_ms)
  return { issuer, root }
}

/** A self-signed root whose key is trusted. */
export async function requireRoot(root: Certificate, roots: TrustedRoots, now_ms: number): Promise<void> {
  requireThat(isTrusted(roots, root.public_key), 'the root is not trusted')
  requireRole(root, 'root')
  requireCurrent(root, now_ms)
  await requireIssuedBy(root, root, 0)
}

export async function requireUnderRoot(
  issuer: Certificate,
  root: Certificate,
  role: 'pck_authority' | 'tcb_signing',
  now_ms: number,
): Promise<void> {
  requireRole(issuer, role)
  requireCurrent(issuer, now_ms)
  await requireIssuedBy(issuer, root, role === 'pck_authority' ? 1 : 0)
}

/** Collateral with verified signatures. Whether it is current is checked at each use. */
export type OpenedCollateral = {
  roots: TrustedRoots
  root: Certificate
  pck_authority: Certificate
  /** All certificates that the documents rest on. */
  certificates: Certificate[]
  root_list: RevocationList
  pck_list: RevocationList
  tcb_info: TcbInfo
  qe_identity: QeIdentity
}

/** @throws Refused when any part is not signed in its role under a trusted root, or not current at `now_ms`. */
export async function openCollateral(
  given: Collateral,
  roots: TrustedRoots,
  now_ms: number,
): Promise<OpenedCollateral> {
  // Callers pass values that came from JSON.
  const collateral = readCollateralValue(given)
  const { tcb_info_issuer_chain, qe_identity_issuer_chain } = collateral
  const [pck, tcb] = await Promise.all([
    openIssuerChain(collateral.pck_crl_issuer_chain, 'pck_authority', roots, now_ms),
    openIssuerChain(tcb_info_issuer_chain, 'tcb_signing', roots, now_ms),
  ])
  // Intel signs both documents under one chain.
  const qe =
    qe_identity_issuer_chain === tcb_info_issuer_chain
      ? tcb
      : await openIssuerChain(qe_identity_issuer_chain, 'tcb_signing', roots, now_ms)
  const root_list = readRevocationList(hexBytes(collateral.root_ca_crl, 'the root revocation list'))
  const pck_list = readRevocationList(hexBytes(collateral.pck_crl, 'the PCK revocation list'))
  await Promise.all([
    requireListOf(root_list, pck.root),
    requireListOf(pck_list, pck.issuer),
    requireSigned(collateral.tcb_info, collateral.tcb_info_signature, tcb),
    requireSigned(collateral.qe_identity, collateral.qe_identity_signature, qe),
  ])
  for (const { issuer } of [pck, tcb, qe]) requireNotRevoked(issuer, root_list)
  const opened = {
    roots,
    root: pck.root,
    pck_authority: pck.issuer,
    certificates: [pck, tcb, qe].flatMap(({ issuer, root }) => [issuer, root]),
    root_list,
    pck_list,
    tcb_info: readTcbInfo(collateral.tcb_info),
    qe_identity: readQeIdentity(collateral.qe_identity),
  }
  requireCollateralCurrent(opened, now_ms)
  return opened
}

/** @throws Refused when a certificate, list or document is not current at `now_ms`. */
export function requireCollateralCurrent(opened: OpenedCollateral, now_ms: number): void {
  requireThat(Number.isFinite(now_ms), 'the time is not a number')
  for (const certificate of opened.certificates) requireCurrent(certificate, now_ms)
  for (const list of [opened.root_list, opened.pck_list]) requireListCurrent(list, now_ms)
  for (const [name, document] of [
    ['TCB info', opened.tcb_info],
    ['QE identity', opened.qe_identity],
  ] as const) {
    requireThat(now_ms >= document.issued_ms, `${name} is from the future`)
    requireThat(now_ms <= document.next_update_ms, `${name} has expired`)
  }
}

async function requireSigned(text: string, signature: string, chain: IssuerChain): Promise<void> {
  const raw = hexBytes(signature, 'a document signature')
  if (!(await isSignedBy(chain.issuer.public_key, utf8(text), raw)))
    throw new Refused('a document is not signed by the TCB signing key')
}

function hexBytes(text: string, part: string): Uint8Array {
  const bytes = fromAnyHex(text.toLowerCase())
  if (bytes === undefined || bytes.length === 0) throw new Refused(`${part} is absent or not hex`)
  return bytes
}

/** X.509 v2 certificate revocation list (RFC 5280 section 5.1). */
type RevocationList = {
  signed: Uint8Array
  /** r ‖ s, 64 bytes. */
  signature: Uint8Array
  /** DER name. */
  issuer: Uint8Array
  this_update_ms: number
  next_update_ms: number
  /** Serial numbers in hex. */
  revoked: ReadonlySet<string>
}

/** @throws MalformedDer, also for a partial list, which a critical extension marks */
export function readRevocationList(der: Uint8Array): RevocationList {
  const { signed, signature, body, readAlgorithm } = openSigned(der)
  if (readSmallInteger(body) !== 1) throw new MalformedDer('revocation list version is not 2')
  readAlgorithm()
  const issuer = body.whole(TAG.sequence)
  const [this_update_ms, next_update_ms] = [readTime(body), readTime(body)]
  const revoked = new Set<string>()
  const entries = body.optional(TAG.sequence)
  while (entries !== undefined && !entries.done) revoked.add(readEntry(entries.open(TAG.sequence)))
  const wrapper = body.open(context(0))
  refuseUnknownCritical(readExtensions(wrapper.open(TAG.sequence)), [])
  wrapper.end()
  body.end()
  return { signed, signature, issuer, this_update_ms, next_update_ms, revoked }
}

/** Serial number of one entry; every listed certificate is rejected, for any reason of revocation. */
function readEntry(entry: DerReader): string {
  const serial = readSerial(entry)
  readTime(entry)
  const extensions = entry.optional(TAG.sequence)
  if (extensions !== undefined) refuseUnknownCritical(readExtensions(extensions), [])
  entry.end()
  return serial
}

export function requireCurrent(certificate: Certificate, now_ms: number): void {
  if (now_ms < certificate.not_before_ms) throw new Refused('a certificate is not valid yet')
  if (now_ms > certificate.not_after_ms) throw new Refused('a certificate has expired')
}

/** @param authorities_below number of authorities between `issuer` and the leaf, `certificate` included */
export async function requireIssuedBy(
  certificate: Certificate,
  issuer: Certificate,
  authorities_below: number,
): Promise<void> {
  const { ca, path_length } = issuer.basic_constraints
  if (!equalBytes(certificate.issuer, issuer.subject)) throw new Refused('the issuer has another name')
  if (!ca || !issuer.mayDo(USAGE.certificate_sign)) throw new Refused('the issuer is no authority')
  if (path_length !== undefined && authorities_below > path_length)
    throw new Refused('the chain is longer than its authority allows')
  if (!(await isSignedBy(issuer.public_key, certificate.signed, certificate.signature)))
    throw new Refused('a certificate is not signed by its issuer')
}

/** Checks issuer and signature of a revocation list. */
export async function requireListOf(list: RevocationList, issuer: Certificate): Promise<void> {
  if (!equalBytes(list.issuer, issuer.subject)) throw new Refused('a revocation list has another issuer')
  if (!issuer.mayDo(USAGE.list_sign)) throw new Refused('the issuer may not sign revocation lists')
  if (!(await isSignedBy(issuer.public_key, list.signed, list.signature)))
    throw new Refused('a revocation list is not signed by its issuer')
}

export function requireListCurrent(list: RevocationList, now_ms: number): void {
  if (now_ms < list.this_update_ms) throw new Refused('a revocation list is from the future')
  if (now_ms > list.next_update_ms) throw new Refused('a revocation list has expired')
}

export function requireNotRevoked(certificate: Certificate, list: RevocationList): void {
  if (!equalBytes(certificate.issuer, list.issuer))
    throw new Refused('a revocation list of another issuer was given')
  if (list.revoked.has(certificate.serial)) throw new Refused('a certificate is revoked')
}
