/**
 * What each certificate of Intel's attestation PKI is for ("SGX PCK Certificate and CRL Profile Specification", section
 * 1.3): told by the end of its common name, so that a key extracted from one machine cannot sign for Intel.
 */
import { requireThat } from '../refused'
import type { Certificate } from '../x509/certificate'

const ROLES = {
  root: [' SGX Root CA'],
  pck_authority: [' SGX PCK Platform CA', ' SGX PCK Processor CA'],
  pck: [' SGX PCK Certificate'],
  tcb_signing: [' SGX TCB Signing'],
} as const
export type Role = keyof typeof ROLES

export function requireRole(certificate: Certificate, role: Role): void {
  const held = ROLES[role].some((ending) => certificate.common_name.endsWith(ending))
  requireThat(held, `a certificate stands in for the role ${role} without holding it`)
  const authority = role === 'root' || role === 'pck_authority'
  requireThat(
    certificate.basic_constraints.ca === authority,
    `the ${role} certificate's constraints are wrong`,
  )
}
