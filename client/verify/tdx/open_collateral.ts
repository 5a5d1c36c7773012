/** Collateral whose every signature was checked; whether it is current is asked anew at each use. */
import { fromAnyHex } from '../../../protocol/any_hex'
import { utf8 } from '../../../protocol/bytes'
import type { Collateral } from '../../../protocol/collateral'
import { Refused, requireThat } from '../refused'
import type { Certificate } from '../x509/certificate'
import { requireCurrent, requireListCurrent, requireListOf, requireNotRevoked } from '../x509/chain'
import { isSignedBy } from '../x509/p256'
import { type RevocationList, readRevocationList } from '../x509/revocation_list'
import { type IssuerChain, openIssuerChain } from './issuer_chain'
import { type QeIdentity, readQeIdentity } from './qe_identity'
import { readTcbInfo, type TcbInfo } from './tcb_info'
import type { TrustedRoots } from './trusted_roots'

export type OpenedCollateral = {
  roots: TrustedRoots
  root: Certificate
  pck_authority: Certificate
  /** All certificates the documents stand on. */
  certificates: Certificate[]
  root_list: RevocationList
  pck_list: RevocationList
  tcb_info: TcbInfo
  qe_identity: QeIdentity
}

/** @throws Refused when any part is not signed in its role under a trusted root, or not current at `now_ms`. */
export async function openCollateral(
  collateral: Collateral,
  roots: TrustedRoots,
  now_ms: number,
): Promise<OpenedCollateral> {
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
    requireListOf(root_list, pck.root, now_ms),
    requireListOf(pck_list, pck.issuer, now_ms),
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
