/** Issues the development certificates, shaped like Intel's, and makes TDX quotes of version 4 as the quoting enclave would. */

import { createHash, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import * as der from '../../enclave/der'
import * as x509 from '../../enclave/x509'
import { type Extension, extension, spkiOf } from '../../enclave/x509'
import { concatBytes, utf8 } from '../../protocol/bytes'
import { sha256 } from '../../protocol/sha256'
import { derOfPem, pemOfDer } from '../../protocol/x509/certificate'
import * as platform from './machine'
import {
  CPU_SVN,
  DEVELOPMENT_ONLY,
  FMSPC,
  PCE_ID,
  PCE_SVN,
  PLATFORM_INSTANCE_ID,
  PPID,
  type StoredKeys,
} from './machine'

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

const HARDWARE_PADDING_BYTES = 70

/** The quoting enclave: one attestation key, certified by the PCK over its report. */
export type QuotingEnclave = { attestation_key: KeyObject; certification: Uint8Array }

export type TdFacts = {
  registers: readonly [Uint8Array, Uint8Array, Uint8Array, Uint8Array]
  compose_hash: Uint8Array
  debug: boolean
  out_of_date: boolean
  /** 64 bytes. */
  report_data: Uint8Array
}

export function startQuotingEnclave(authorities: Authorities, pck: KeyObject): QuotingEnclave {
  const { privateKey: attestation_key } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const auth_data = Uint8Array.from({ length: 32 }, (_, index) => index)
  const report = qeReport(createHash('sha256').update(pointOf(attestation_key)).update(auth_data).digest())
  const chain = [authorities.pck, authorities.platform_authority, authorities.root]
  // The chain is C text: it ends with a zero byte.
  const pem = utf8(`${chain.map((der) => pemOfDer(der, 'CERTIFICATE')).join('')}\0`)
  const inner = concatBytes(u16(auth_data.length), auth_data, u16(5), u32(pem.length), pem)
  return { attestation_key, certification: concatBytes(report, signRaw(report, pck), inner) }
}

export function signQuote(enclave: QuotingEnclave, facts: TdFacts): Uint8Array {
  const user_data = concatBytes(platform.QE_ID, new Uint8Array(4))
  const header = concatBytes(u16(4), u16(2), u32(0x81), new Uint8Array(4), platform.QE_VENDOR_ID, user_data)
  const signed = concatBytes(header, tdReport(facts))
  const { attestation_key, certification } = enclave
  const signature = signRaw(signed, attestation_key)
  const certified = concatBytes(u16(6), u32(certification.length), certification)
  const signature_data = concatBytes(signature, pointOf(attestation_key), certified)
  return concatBytes(
    signed,
    u32(signature_data.length),
    signature_data,
    new Uint8Array(HARDWARE_PADDING_BYTES),
  )
}

function tdReport(facts: TdFacts): Uint8Array {
  const mr_config_id = new Uint8Array(48)
  mr_config_id[0] = 1
  mr_config_id.set(facts.compose_hash, 1)
  return concatBytes(
    facts.out_of_date ? platform.TEE_TCB_SVN_OUT_OF_DATE : platform.TEE_TCB_SVN,
    platform.MR_SEAM,
    new Uint8Array(48 + 8),
    facts.debug ? platform.TD_ATTRIBUTES_DEBUG : platform.TD_ATTRIBUTES,
    platform.XFAM,
    platform.MR_TD,
    mr_config_id,
    new Uint8Array(48 + 48),
    ...facts.registers,
    facts.report_data,
  )
}

function qeReport(key_hash: Uint8Array): Uint8Array {
  return concatBytes(
    platform.CPU_SVN,
    new Uint8Array(4 + 28),
    platform.QE_ATTRIBUTES,
    platform.QE_MR_ENCLAVE,
    new Uint8Array(32),
    platform.QE_MR_SIGNER,
    new Uint8Array(96),
    u16(platform.QE_PROD_ID),
    u16(platform.QE_SVN),
    new Uint8Array(60),
    key_hash,
    new Uint8Array(32),
  )
}

const pointOf = (key: KeyObject): Uint8Array => spkiOf(key).subarray(-64)
const signRaw = (message: Uint8Array, key: KeyObject): Uint8Array =>
  sign('sha256', message, { key, dsaEncoding: 'ieee-p1363' })
const u16 = (value: number): Uint8Array => Uint8Array.of(value & 0xff, value >> 8)
const u32 = (value: number): Uint8Array => concatBytes(u16(value & 0xffff), u16(value >>> 16))
