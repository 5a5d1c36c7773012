/** Which root keys a verifier believes: Intel's, or exactly those that its policy gives instead. */
import { equalBytes } from '../../../protocol/bytes'
import { INTEL_ROOT_KEY } from '../../../protocol/intel_root'
import { derOfPem } from '../../../protocol/pem'
import { Refused } from '../refused'
import { readCertificate } from '../x509/certificate'

/** Raw P-256 points, 64 bytes each. */
export type TrustedRoots = readonly Uint8Array[]

export const INTEL_ROOTS: TrustedRoots = [INTEL_ROOT_KEY]

/** Keys of the certificates in `roots_pem`; Intel's when absent. @throws Refused when the text is not certificates. */
export function trustedRoots(roots_pem: string | undefined): TrustedRoots {
  if (roots_pem === undefined) return INTEL_ROOTS
  const certificates = derOfPem(roots_pem, 'CERTIFICATE')
  if (certificates === undefined) throw new Refused('the given roots are not PEM certificates')
  return certificates.map((der) => new Uint8Array(readCertificate(der).public_key))
}

export function isTrusted(roots: TrustedRoots, public_key: Uint8Array): boolean {
  return roots.some((root) => equalBytes(root, public_key))
}

/** True when nothing but Intel's own key is believed. */
export function onlyIntel(roots: TrustedRoots): boolean {
  return roots.length > 0 && roots.every((root) => equalBytes(root, INTEL_ROOT_KEY))
}
