/** X.509 v3 certificates with P-256 keys signed by ECDSA with SHA-256 (RFC 5280 section 4.1): the only ones Intel issues. */
import { context, type DerReader, MalformedDer, openDer, TAG } from './der'
import { readBitString, readOid, readSerial, readSmallInteger, readTime } from './der_values'
import { commonName } from './distinguished_name'
import {
  BASIC_CONSTRAINTS,
  type BasicConstraints,
  type Extension,
  KEY_USAGE,
  readBasicConstraints,
  readExtensions,
  readKeyUsage,
  refuseUnknownCritical,
} from './extensions'
import { openSigned } from './open_signed'

export type Certificate = {
  der: Uint8Array
  /** The bytes the signature covers. */
  signed: Uint8Array
  /** r ‖ s, 64 bytes. */
  signature: Uint8Array
  /** Hex. */
  serial: string
  /** DER names. */
  issuer: Uint8Array
  subject: Uint8Array
  common_name: string
  not_before_ms: number
  not_after_ms: number
  /** Raw point x ‖ y, 64 bytes. */
  public_key: Uint8Array
  basic_constraints: BasicConstraints
  mayDo: (usage: number) => boolean
  extensions: ReadonlyMap<string, Extension>
}

const EC_PUBLIC_KEY = '1.2.840.10045.2.1'
const P256 = '1.2.840.10045.3.1.7'

/** @throws MalformedDer */
export function readCertificate(der: Uint8Array): Certificate {
  const { signed, signature, body, readAlgorithm } = openSigned(der)
  const version = body.open(context(0))
  if (readSmallInteger(version) !== 2) throw new MalformedDer('certificate version is not 3')
  version.end()
  const serial = readSerial(body)
  readAlgorithm()
  const issuer = body.whole(TAG.sequence)
  const validity = body.open(TAG.sequence)
  const [not_before_ms, not_after_ms] = [readTime(validity), readTime(validity)]
  validity.end()
  const subject = body.whole(TAG.sequence)
  const public_key = readP256Key(body.open(TAG.sequence))
  const wrapper = body.open(context(3))
  const extensions = readExtensions(wrapper.open(TAG.sequence))
  wrapper.end()
  body.end()
  refuseUnknownCritical(extensions, [BASIC_CONSTRAINTS, KEY_USAGE])
  return {
    der,
    signed,
    signature,
    serial,
    issuer,
    subject,
    common_name: commonName(subject),
    not_before_ms,
    not_after_ms,
    public_key,
    basic_constraints: readBasicConstraints(extensions),
    mayDo: readKeyUsage(extensions),
    extensions,
  }
}

function readP256Key(spki: DerReader): Uint8Array {
  const algorithm = spki.open(TAG.sequence)
  if (readOid(algorithm) !== EC_PUBLIC_KEY || readOid(algorithm) !== P256)
    throw new MalformedDer('the key is not on P-256')
  algorithm.end()
  const point = readBitString(spki)
  spki.end()
  if (point.length !== 65 || point[0] !== 4) throw new MalformedDer('the key is not an uncompressed point')
  return point.subarray(1)
}

/** DER of the SubjectPublicKeyInfo of any certificate, whatever its key and signature. @throws MalformedDer */
export function spkiOfCertificate(der: Uint8Array): Uint8Array {
  const body = openDer(der, TAG.sequence).open(TAG.sequence)
  body.optional(context(0))
  body.value(TAG.integer)
  for (let skipped = 0; skipped < 4; skipped++) body.value(TAG.sequence)
  return new Uint8Array(body.whole(TAG.sequence))
}
