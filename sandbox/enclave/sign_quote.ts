/** Makes a TDX quote, version 4, as the quoting enclave would: 70 zero bytes behind it, as real ones have. */
import { createHash, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { spkiOf } from '../../enclave/x509'
import { concatBytes, utf8 } from '../../protocol/bytes'
import { pemOfDer } from '../../protocol/pem'
import type { Authorities } from './authorities'
import * as platform from './machine'

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
