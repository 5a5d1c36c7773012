/** The development certificate authorities: root, PCK platform authority, PCK leaf and TCB signing, shaped as Intel's. */

import type { KeyObject } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { derOfPem, pemOfDer } from '../../protocol/pem'
import { sha256 } from '../../protocol/sha256'
import * as x509 from '../x509/certificate'
import { DEVELOPMENT_ONLY } from './platform'
import { sgxExtension } from './sgx_extension'
import type { StoredKeys } from './stored_keys'

const YEAR_MS = 365 * 86_400_000
const name = (role: string): x509.Name => ({
  common_name: `${DEVELOPMENT_ONLY} ${role}`,
  organization: `Tacit ${DEVELOPMENT_ONLY}`,
})
export const ROOT_NAME = name('SGX Root CA')
export const PLATFORM_AUTHORITY_NAME = name('SGX PCK Platform CA')

/** DER certificates. The last words of each common name are Intel's, so that a verifier can tell the roles apart. */
export type Authorities = {
  root: Uint8Array
  platform_authority: Uint8Array
  pck: Uint8Array
  pck_serial: Uint8Array
  tcb_signing: Uint8Array
}

/** Issues the certificates anew but for the root, whose bytes are kept in `development-root.pem` for those who pin it. */
export function issueAuthorities(data_dir: string, keys: StoredKeys, now_ms: number): Authorities {
  const issue = (
    subject: x509.Name,
    issuer: x509.Name,
    subject_key: KeyObject,
    issuer_key: KeyObject,
    years: number,
    extensions: x509.Extension[],
  ) =>
    x509.issueCertificate({
      subject,
      issuer,
      subject_key,
      issuer_key,
      serial: serialOf(subject_key),
      not_before_ms: now_ms - 86_400_000,
      not_after_ms: now_ms + years * YEAR_MS,
      extensions: [
        x509.authorityKeyIdentifier(issuer_key),
        x509.subjectKeyIdentifier(subject_key),
        ...extensions,
      ],
    })
  const authority = (path_length: number) => [x509.keyUsage(5, 6), x509.basicConstraints(true, path_length)]
  const leaf = [x509.keyUsage(0, 1), x509.basicConstraints(false)]
  const { root, platform_authority, pck, tcb_signing } = keys
  return {
    root: storedRoot(data_dir) ?? issue(ROOT_NAME, ROOT_NAME, root, root, 20, authority(1)),
    platform_authority: issue(PLATFORM_AUTHORITY_NAME, ROOT_NAME, platform_authority, root, 10, authority(0)),
    pck: issue(name('SGX PCK Certificate'), PLATFORM_AUTHORITY_NAME, pck, platform_authority, 5, [
      ...leaf,
      sgxExtension(),
    ]),
    pck_serial: serialOf(pck),
    tcb_signing: issue(name('SGX TCB Signing'), ROOT_NAME, tcb_signing, root, 5, leaf),
  }
}

export const ROOT_FILE = 'development-root.pem'

function storedRoot(data_dir: string): Uint8Array | undefined {
  const path = join(data_dir, ROOT_FILE)
  return existsSync(path) ? derOfPem(readFileSync(path, 'utf8'), 'CERTIFICATE')?.[0] : undefined
}

export function storeRoot(data_dir: string, root: Uint8Array): void {
  writeFileSync(join(data_dir, ROOT_FILE), pemOfDer(root, 'CERTIFICATE'))
}

/** 20 bytes from the key, positive and without leading zero, so that a key keeps its serial number. */
function serialOf(key: KeyObject): Uint8Array {
  const serial = sha256(x509.spkiOf(key)).slice(0, 20)
  serial[0] = (serial[0]! & 0x7f) | 0x40
  return serial
}
