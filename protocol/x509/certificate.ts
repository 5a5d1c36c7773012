/** Reads PEM (RFC 7468) and X.509 v3 certificates with P-256 keys (RFC 5280), as Intel issues them. */
import { equalBytes } from '../bytes'
import {
  context,
  DerReader,
  MalformedDer,
  openDer,
  rawSignature,
  readBitString,
  readBoolean,
  readNamedBits,
  readOid,
  readSerial,
  readSmallInteger,
  readTime,
  TAG,
} from './der'

const COMMON_NAME = '2.5.4.3'
/** UTF8String, PrintableString, TeletexString, IA5String. */
const TEXT_TAGS = [0x0c, 0x13, 0x14, 0x16]

/**
 * Names are otherwise compared as bytes.
 * @param name DER of the whole Name. @throws MalformedDer unless it has exactly one common name
 */
function commonName(name: Uint8Array): string {
  const found: string[] = []
  const sets = openDer(name, TAG.sequence)
  while (!sets.done) {
    const attributes = sets.open(TAG.set)
    do {
      const attribute = attributes.open(TAG.sequence)
      const type = readOid(attribute)
      const tag = attribute.peek() ?? 0
      const text = attribute.value(tag)
      attribute.end()
      if (type === COMMON_NAME) found.push(decode(tag, text))
    } while (!attributes.done)
  }
  if (found.length !== 1) throw new MalformedDer('expected one common name')
  return found[0]!
}

function decode(tag: number, text: Uint8Array): string {
  if (!TEXT_TAGS.includes(tag)) throw new MalformedDer('common name is not text')
  // Roles are plain ASCII; other characters could imitate one.
  if (!text.every((byte) => byte >= 0x20 && byte <= 0x7e)) throw new MalformedDer('common name is not ASCII')
  return String.fromCharCode(...text)
}

type Extension = { critical: boolean; value: Uint8Array }

/** Extensions of a certificate or revocation list by object identifier. @throws MalformedDer for a repeated one */
export function readExtensions(list: DerReader): Map<string, Extension> {
  const extensions = new Map<string, Extension>()
  do {
    const item = list.open(TAG.sequence)
    const id = readOid(item)
    const critical = item.peek() === TAG.boolean && readBoolean(item)
    const value = item.value(TAG.octet_string)
    item.end()
    if (extensions.has(id)) throw new MalformedDer('an extension is repeated')
    extensions.set(id, { critical, value })
  } while (!list.done)
  return extensions
}

/** @throws MalformedDer for a critical extension outside `known`, whose meaning would be ignored */
export function refuseUnknownCritical(
  extensions: ReadonlyMap<string, Extension>,
  known: readonly string[],
): void {
  for (const [id, { critical }] of extensions)
    if (critical && !known.includes(id)) throw new MalformedDer('unknown critical extension')
}

const BASIC_CONSTRAINTS = '2.5.29.19'
const KEY_USAGE = '2.5.29.15'

/** `path_length` undefined: any number of authorities may follow. */
type BasicConstraints = { ca: boolean; path_length: number | undefined }

function readBasicConstraints(extensions: ReadonlyMap<string, Extension>): BasicConstraints {
  const extension = extensions.get(BASIC_CONSTRAINTS)
  if (extension === undefined) return { ca: false, path_length: undefined }
  const reader = openDer(extension.value, TAG.sequence)
  const ca = reader.peek() === TAG.boolean && readBoolean(reader)
  const path_length = reader.peek() === TAG.integer ? readSmallInteger(reader) : undefined
  reader.end()
  if (!ca && path_length !== undefined) throw new MalformedDer('a path length without an authority')
  return { ca, path_length }
}

/** RFC 5280 section 4.2.1.3. */
export const USAGE = { digital_signature: 0, certificate_sign: 5, list_sign: 6 } as const

/** False for every use when the certificate states none; Intel's always state them. */
function readKeyUsage(extensions: ReadonlyMap<string, Extension>): (usage: number) => boolean {
  const extension = extensions.get(KEY_USAGE)
  if (extension === undefined) return () => false
  const reader = new DerReader(extension.value)
  const bits = readNamedBits(reader)
  reader.end()
  return bits
}

const ECDSA_SHA256 = '1.2.840.10045.4.3.2'

/** The common form of certificates and revocation lists: body, algorithm and signature (RFC 5280). */
type Signed = {
  /** DER of the signed body. */
  signed: Uint8Array
  /** r ‖ s, 64 bytes. */
  signature: Uint8Array
  body: DerReader
  /** Reads the algorithm that the body repeats. @throws MalformedDer unless both are ECDSA with SHA-256 */
  readAlgorithm(): void
}

/** @throws MalformedDer */
export function openSigned(der: Uint8Array): Signed {
  const outer = openDer(der, TAG.sequence)
  const signed = outer.whole(TAG.sequence)
  const algorithm = outer.whole(TAG.sequence)
  const signature = rawSignature(readBitString(outer))
  outer.end()
  const body = openDer(signed, TAG.sequence)
  return {
    signed,
    signature,
    body,
    readAlgorithm() {
      if (!equalBytes(body.whole(TAG.sequence), algorithm))
        throw new MalformedDer('signature algorithms differ')
      const reader = openDer(algorithm, TAG.sequence)
      if (readOid(reader) !== ECDSA_SHA256) throw new MalformedDer('not signed by ECDSA with SHA-256')
      reader.end()
    },
  }
}

/** X.509 v3 with a P-256 key, signed by ECDSA with SHA-256 (RFC 5280 section 4.1): the only form that Intel issues. */
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

/** DER of a certificate's SubjectPublicKeyInfo, for any kind of key and signature. @throws MalformedDer */
export function spkiOfCertificate(der: Uint8Array): Uint8Array {
  const body = openDer(der, TAG.sequence).open(TAG.sequence)
  body.optional(context(0))
  body.value(TAG.integer)
  for (let skipped = 0; skipped < 4; skipped++) body.value(TAG.sequence)
  return new Uint8Array(body.whole(TAG.sequence))
}

const BLOCK = /^-----BEGIN ([A-Z0-9 ]+)-----\r?\n([A-Za-z0-9+/=\r\n]+)-----END \1-----/

/**
 * DER contents of the blocks in order. Undefined when the text holds anything but blocks of this label and
 * white space, or no block at all.
 */
export function derOfPem(text: string, label: string): Uint8Array[] | undefined {
  const blocks: Uint8Array[] = []
  let rest = text.trim()
  while (rest !== '') {
    const match = BLOCK.exec(rest)
    if (match === null || match[1] !== label) return undefined
    const der = base64Bytes(match[2]!.replace(/[\r\n]/g, ''))
    if (der === undefined) return undefined
    blocks.push(der)
    rest = rest.slice(match[0].length).trimStart()
  }
  return blocks.length === 0 ? undefined : blocks
}

/** One PEM block with lines of 64 characters and a final newline. */
export function pemOfDer(der: Uint8Array, label: string): string {
  let binary = ''
  for (const byte of der) binary += String.fromCharCode(byte)
  const lines = btoa(binary).match(/.{1,64}/g) ?? []
  return `-----BEGIN ${label}-----\n${lines.join('\n')}\n-----END ${label}-----\n`
}

function base64Bytes(text: string): Uint8Array | undefined {
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0))
  } catch {
    return undefined
  }
}
