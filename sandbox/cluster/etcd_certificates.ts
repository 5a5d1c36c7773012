/** Issues the certificates of a local cluster: one authority, one pair for members and clients, one of a foreign authority. */

import { generateKeyPairSync } from 'node:crypto'
import {
  basicConstraints,
  type Extension,
  issueCertificate,
  keyUsage,
  randomSerial,
  subjectAlternativeNames,
} from '../../enclave/x509'

/** PEM: the authority that is believed, and the own certificate with its key. */
export type TlsFiles = { ca: string; cert: string; key: string }

const DAY_MS = 86_400_000
const pem = (der: Uint8Array) =>
  `-----BEGIN CERTIFICATE-----\n${Buffer.from(der)
    .toString('base64')
    .replace(/.{1,64}/g, '$&\n')}-----END CERTIFICATE-----\n`

export function etcdCertificates(): TlsFiles {
  const authority = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey
  const member = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey
  const issuer = { common_name: 'test authority', organization: 'test' }
  const issue = (common_name: string, subject_key: typeof member, extensions: Extension[]) =>
    pem(
      issueCertificate({
        subject: { common_name, organization: 'test' },
        issuer,
        subject_key,
        issuer_key: authority,
        serial: randomSerial(),
        not_before_ms: Date.now() - DAY_MS,
        not_after_ms: Date.now() + DAY_MS,
        extensions,
      }),
    )
  const names = subjectAlternativeNames(['localhost', '127.0.0.1'])
  return {
    ca: issue(issuer.common_name, authority, [basicConstraints(true), keyUsage(5, 6)]),
    cert: issue('test member', member, [basicConstraints(false), keyUsage(0), names]),
    key: member.export({ type: 'pkcs8', format: 'pem' }) as string,
  }
}
