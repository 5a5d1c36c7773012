/** Issues X.509 v3 certificates (RFC 5280) for P-256 keys, signed with ECDSA and SHA-256. */
import {
  createHash,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  sign,
} from 'node:crypto'
import { isIP } from 'node:net'
import { concatBytes, utf8 } from '../protocol/bytes'
import { sha256 } from '../protocol/sha256'
import { pemOfDer } from '../protocol/x509/certificate'
import type { TlsMaterial } from './contract'
import * as der from './der'
import { CLOCK_TOLERANCE_MS, SELF_SIGNED_LIFE_MS } from './limits'

export type Extension = Uint8Array
export type Name = { common_name: string; organization: string }
export type CertificateRequest = {
  subject: Name
  issuer: Name
  /** Public or private P-256 key of the subject. */
  subject_key: KeyObject
  issuer_key: KeyObject
  /** Positive, at most 20 bytes big-endian. */
  serial: Uint8Array
  not_before_ms: number
  not_after_ms: number
  extensions: Extension[]
}

export const ECDSA_SHA256 = der.sequence(der.oid('1.2.840.10045.4.3.2'))
const VERSION_3 = der.explicit(0, der.smallInteger(2))

/** DER of the signed certificate. */
export function issueCertificate(request: CertificateRequest): Uint8Array {
  const { subject, issuer, subject_key, issuer_key, serial, not_before_ms, not_after_ms, extensions } =
    request
  const to_be_signed = der.sequence(
    VERSION_3,
    der.integer(serial),
    ECDSA_SHA256,
    encodeName(issuer),
    der.sequence(der.time(not_before_ms), der.time(not_after_ms)),
    encodeName(subject),
    spkiOf(subject_key),
    der.explicit(3, der.sequence(...extensions)),
  )
  return signedSequence(to_be_signed, issuer_key)
}

/** 16 bytes; the first is from 0x40 to 0x7f, so that the DER integer always has 16 bytes. */
export function randomSerial(): Uint8Array {
  const serial = new Uint8Array(randomBytes(16))
  serial[0] = (serial[0]! & 0x7f) | 0x40
  return serial
}

/** A to-be-signed structure with its signature, as in certificates and revocation lists. */
export function signedSequence(to_be_signed: Uint8Array, issuer_key: KeyObject): Uint8Array {
  return der.sequence(to_be_signed, ECDSA_SHA256, der.bits(sign('sha256', to_be_signed, issuer_key)))
}

/** DER SubjectPublicKeyInfo of a public or private key. */
export function spkiOf(key: KeyObject): Uint8Array {
  const public_key = key.type === 'private' ? createPublicKey(key) : key
  return new Uint8Array(public_key.export({ type: 'spki', format: 'der' }))
}

export function encodeName(name: Name): Uint8Array {
  const attribute = (type: string, value: string) => der.set(der.sequence(der.oid(type), der.text(value)))
  return der.sequence(attribute('2.5.4.3', name.common_name), attribute('2.5.4.10', name.organization))
}

/** One extension: OID, criticality (absent when false, as DER requires), value. */
export function extension(oid: string, critical: boolean, value: Uint8Array): Extension {
  const criticality = critical ? [der.boolean(true)] : []
  return der.sequence(der.oid(oid), ...criticality, der.octets(value))
}

export function basicConstraints(ca: boolean, path_length?: number): Extension {
  const limit = path_length === undefined ? [] : [der.smallInteger(path_length)]
  return extension('2.5.29.19', true, der.sequence(...(ca ? [der.boolean(true), ...limit] : [])))
}

/** Bits from the left: 0 digitalSignature, 1 nonRepudiation, 5 keyCertSign, 6 cRLSign. */
export function keyUsage(...usages: (0 | 1 | 5 | 6)[]): Extension {
  const byte = usages.reduce<number>((sum, bit) => sum | (0x80 >> bit), 0)
  return extension('2.5.29.15', true, der.bits(Uint8Array.of(byte), 7 - Math.max(...usages)))
}

export const serverAuthentication = (): Extension =>
  extension('2.5.29.37', false, der.sequence(der.oid('1.3.6.1.5.5.7.3.1')))

/** RFC 5280 method 1: SHA-1 only identifies the key. */
function keyIdentifier(key: KeyObject): Uint8Array {
  return createHash('sha1').update(spkiOf(key).subarray(-65)).digest()
}
export const subjectKeyIdentifier = (key: KeyObject): Extension =>
  extension('2.5.29.14', false, der.octets(keyIdentifier(key)))
export const authorityKeyIdentifier = (key: KeyObject): Extension =>
  extension('2.5.29.35', false, der.sequence(der.implicit(0, keyIdentifier(key))))

/** DNS names and IPv4 addresses. @throws RangeError for a name that is neither. */
export function subjectAlternativeNames(names: readonly string[]): Extension {
  return extension('2.5.29.17', false, der.sequence(...names.map(alternativeName)))
}
function alternativeName(name: string): Uint8Array {
  if (isIP(name) === 4) return der.implicit(7, Uint8Array.from(name.split('.').map(Number)))
  if (name === '::1') return der.implicit(7, concatBytes(new Uint8Array(15), Uint8Array.of(1)))
  if (!/^(\*\.)?[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/.test(name))
    throw new RangeError('not a DNS name or IPv4 address')
  return der.implicit(2, utf8(name))
}

/**
 * A fresh P-256 key with a self-signed certificate for `localhost`, `127.0.0.1` and `names` (DNS names or IPv4
 * addresses), valid 90 days. Never written to disk. Clients trust it because attestation binds its key.
 * @throws RangeError for a name that is neither.
 */
export function generateTls(names: readonly string[], now_ms: number): TlsMaterial {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const name = { common_name: names[0] ?? 'localhost', organization: 'Tacit' }
  const not_after_ms = now_ms + SELF_SIGNED_LIFE_MS
  const certificate = issueCertificate({
    subject: name,
    issuer: name,
    subject_key: privateKey,
    issuer_key: privateKey,
    serial: randomSerial(),
    not_before_ms: now_ms - CLOCK_TOLERANCE_MS,
    not_after_ms,
    extensions: [
      basicConstraints(false),
      keyUsage(0),
      serverAuthentication(),
      subjectKeyIdentifier(privateKey),
      subjectAlternativeNames([...new Set(['localhost', '127.0.0.1', ...names])]),
    ],
  })
  return {
    cert_pem: pemOfDer(certificate, 'CERTIFICATE'),
    key_pem: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    spki_sha256: sha256(spkiOf(privateKey)),
    not_after_ms,
  }
}
