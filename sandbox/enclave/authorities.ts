/** Issues the development certificates, shaped like Intel's: root, PCK platform authority, PCK leaf, TCB signing. */

import type { KeyObject } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import * as der from '../../enclave/der'
import * as x509 from '../../enclave/x509'
import { type Extension, extension } from '../../enclave/x509'
import { derOfPem, pemOfDer } from '../../protocol/pem'
import { sha256 } from '../../protocol/sha256'
import type { StoredKeys } from './keys'
import { CPU_SVN, DEVELOPMENT_ONLY, FMSPC, PCE_ID, PCE_SVN, PLATFORM_INSTANCE_ID, PPID } from './machine'

const SGX = '1.2.840.113741.1.13.1'
const YEAR_MS = 365 * 86_400_000
const ROOT_FILE = 'development-root.pem'
const name = (role: string): x509.Name => ({
  common_name: `${DEVELOPMENT_ONLY} ${role}`,
  organization: `Tacit ${DEVELOPMENT_ONLY}`,
})
export const ROOT_NAME = name('SGX Root CA')
export const PLATFORM_AUTHORITY_NAME = name('SGX PCK Platform CA')

/** The SGX extension of a PCK certificate (Intel "SGX PCK Certificate and CRL Profile Specification", section 1.3.5). */
export function sgxExtension(): Extension {
  const item = (path: string, value: Uint8Array) => der.sequence(der.oid(`${SGX}.${path}`), value)
  const components = Array.from(CPU_SVN, (svn, index) => item(`2.${index + 1}`, der.smallInteger(svn)))
  const configuration = [1, 2, 3].map((number) => item(`7.${number}`, der.boolean(true)))
  const value = der.sequence(
    item('1', der.octets(PPID)),
    item(
      '2',
      der.sequence(...components, item('2.17', der.smallInteger(PCE_SVN)), item('2.18', der.octets(CPU_SVN))),
    ),
    item('3', der.octets(PCE_ID)),
    item('4', der.octets(FMSPC)),
    item('5', der.enumerated(1)),
    item('6', der.octets(PLATFORM_INSTANCE_ID)),
    item('7', der.sequence(...configuration)),
  )
  return extension(SGX, false, value)
}

type RevocationListRequest = {
  issuer: x509.Name
  issuer_key: KeyObject
  this_update_ms: number
  next_update_ms: number
  revoked_serials: Uint8Array[]
}

/** Signs a version 2 revocation list (RFC 5280 section 5); returns its DER. */
export function issueRevocationList(request: RevocationListRequest): Uint8Array {
  const { issuer, issuer_key, this_update_ms, next_update_ms, revoked_serials } = request
  const entries = revoked_serials.map((serial) => der.sequence(der.integer(serial), der.time(this_update_ms)))
  const to_be_signed = der.sequence(
    der.smallInteger(1),
    x509.ECDSA_SHA256,
    x509.encodeName(issuer),
    der.time(this_update_ms),
    der.time(next_update_ms),
    // RFC 5280 section 5.1.2.6: the list of entries is absent, not empty.
    ...(entries.length === 0 ? [] : [der.sequence(...entries)]),
    der.explicit(
      0,
      der.sequence(
        x509.extension('2.5.29.20', false, der.smallInteger(1)),
        x509.authorityKeyIdentifier(issuer_key),
      ),
    ),
  )
  return x509.signedSequence(to_be_signed, issuer_key)
}

/** DER certificates. Each common name ends in Intel's words, by which verifiers distinguish the roles. */
export type Authorities = {
  root: Uint8Array
  platform_authority: Uint8Array
  pck: Uint8Array
  pck_serial: Uint8Array
  tcb_signing: Uint8Array
}

/** Issues new certificates; the root is reused from `development-root.pem`, because verifiers pin it. */
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

function storedRoot(data_dir: string): Uint8Array | undefined {
  const path = join(data_dir, ROOT_FILE)
  return existsSync(path) ? derOfPem(readFileSync(path, 'utf8'), 'CERTIFICATE')?.[0] : undefined
}

export function storeRoot(data_dir: string, root: Uint8Array): void {
  writeFileSync(join(data_dir, ROOT_FILE), pemOfDer(root, 'CERTIFICATE'))
}

/** Derived from the key, so that it is stable: 20 bytes, positive, no leading zero. */
function serialOf(key: KeyObject): Uint8Array {
  const serial = sha256(x509.spkiOf(key)).slice(0, 20)
  serial[0] = (serial[0]! & 0x7f) | 0x40
  return serial
}
