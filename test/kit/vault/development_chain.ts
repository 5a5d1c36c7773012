/** Certificates of a made-up platform, shaped like Intel's: each part can be replaced, and all are signed again. */
import { p256 } from '@noble/curves/nist.js'
import * as der from '../../../enclave/der'
import * as x509 from '../../../enclave/x509'
import { concatBytes, utf8 } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import { lowSignature, type RegisterPlatformFields } from '../../../protocol/vault/epochs'

/** A P-256 key from a name. */
export class PlatformKey {
  readonly #secret: Uint8Array
  /** x ‖ y. */
  readonly point: Uint8Array

  constructor(name: string) {
    this.#secret = sha256(utf8(`development chain ${name}`))
    this.point = p256.getPublicKey(this.#secret, false).slice(1)
  }

  get compressed(): Uint8Array {
    return p256.getPublicKey(this.#secret, true)
  }

  /** r ‖ s with low s. */
  sign(message: Uint8Array): Uint8Array {
    return lowSignature(p256.sign(message, this.#secret, { prehash: true }))
  }
}

const SPKI = [der.oid('1.2.840.10045.2.1'), der.oid('1.2.840.10045.3.1.7')] as const
const spkiOf = (point: Uint8Array): Uint8Array =>
  der.sequence(der.sequence(...SPKI), der.bits(concatBytes(Uint8Array.of(4), point)))

export const nameOf = (role: string): Uint8Array =>
  x509.encodeName({ common_name: `Development SGX ${role}`, organization: 'Development' })

const SGX = '1.2.840.113741.1.13.1'
export const item = (path: string, value: Uint8Array): Uint8Array =>
  der.sequence(der.oid(`${SGX}.${path}`), value)
const bytes = (length: number, first: number): Uint8Array =>
  Uint8Array.from({ length }, (_, at) => first + at)

export const PPID = bytes(16, 0x40)
export const FMSPC = bytes(6, 0x60)
export const COMPONENTS = Uint8Array.from([3, 3, 2, 2, 4, 1, 0, 5, 0, 0, 0, 0, 0, 0, 0, 255])
export const PCE_SVN = 300

/** Of the TCB: components 1 to 16, the PCE's SVN, the CPU's SVN. */
export const TCB: readonly Uint8Array[] = [
  ...Array.from(COMPONENTS, (svn, at) => item(`2.${at + 1}`, der.smallInteger(svn))),
  item('2.17', der.smallInteger(PCE_SVN)),
  item('2.18', der.octets(COMPONENTS)),
]
/** Members 1 to 7 of the SGX extension. */
export const membersOf = (tcb: readonly Uint8Array[]): Uint8Array[] => [
  item('1', der.octets(PPID)),
  item('2', der.sequence(...tcb)),
  item('3', der.octets(new Uint8Array(2))),
  item('4', der.octets(FMSPC)),
  item('5', der.enumerated(1)),
  item('6', der.octets(bytes(16, 0x20))),
  item('7', der.sequence(item('7.1', der.boolean(true)))),
]
export const sgxOf = (members: readonly Uint8Array[]): Uint8Array =>
  x509.extension(SGX, false, der.sequence(...members))

/** Parts of a certificate's signed body. */
export type Parts = {
  version: Uint8Array
  serial: Uint8Array
  algorithm: Uint8Array
  issuer: Uint8Array
  validity: Uint8Array
  subject: Uint8Array
  key: Uint8Array
  extensions: Uint8Array[]
  /** Behind the extensions. */
  more: Uint8Array[]
}

const BASE = {
  version: der.explicit(0, der.smallInteger(2)),
  serial: der.integer(bytes(20, 0x41)),
  algorithm: x509.ECDSA_SHA256,
  validity: der.sequence(der.time(1_700_000_000_000), der.time(1_900_000_000_000)),
  more: [],
} as const

const bodyOf = (parts: Parts): Uint8Array => {
  const { version, serial, algorithm, issuer, validity, subject, key, extensions, more } = parts
  const list = der.explicit(3, der.sequence(...extensions))
  return der.sequence(version, serial, algorithm, issuer, validity, subject, key, list, ...more)
}

export const ROOT = new PlatformKey('root')
export const AUTHORITY = new PlatformKey('authority')
export const PCK = new PlatformKey('pck')

export const authorityParts = (): Parts => ({
  ...BASE,
  more: [],
  issuer: nameOf('Root CA'),
  subject: nameOf('PCK Platform CA'),
  key: spkiOf(AUTHORITY.point),
  extensions: [x509.keyUsage(5, 6), x509.basicConstraints(true, 0)],
})
export const leafParts = (pck = PCK): Parts => ({
  ...BASE,
  more: [],
  issuer: nameOf('PCK Platform CA'),
  subject: nameOf('PCK Certificate'),
  key: spkiOf(pck.point),
  extensions: [x509.keyUsage(0, 1), x509.basicConstraints(false), sgxOf(membersOf(TCB))],
})

export type Chain = Omit<RegisterPlatformFields, 'program' | 'payer'>

/** Registers a platform of these bodies, signed by the development keys. */
export const signedChain = (leaf: Uint8Array, authority: Uint8Array, pck = PCK): Chain => ({
  key: pck.compressed,
  leaf_signature: AUTHORITY.sign(leaf),
  authority_key: AUTHORITY.compressed,
  authority_signature: ROOT.sign(authority),
  root_key: ROOT.compressed,
  leaf,
  authority,
})

export const developmentChain = (
  leaf: Partial<Parts> = {},
  authority: Partial<Parts> = {},
  pck = PCK,
): Chain =>
  signedChain(bodyOf({ ...leafParts(pck), ...leaf }), bodyOf({ ...authorityParts(), ...authority }), pck)
