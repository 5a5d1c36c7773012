/** A certificate directly under a trusted root, with that root: the form of every issuer chain in collateral. */
import { derOfPem } from '../../../protocol/pem'
import { Refused, requireThat } from '../refused'
import { type Certificate, readCertificate } from '../x509/certificate'
import { requireCurrent, requireIssuedBy } from '../x509/chain'
import { requireRole } from './roles'
import { isTrusted, type TrustedRoots } from './trusted_roots'

export type IssuerChain = { issuer: Certificate; root: Certificate }

/** @throws Refused unless the text is exactly two certificates in these roles and the root is trusted. */
export async function openIssuerChain(
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
