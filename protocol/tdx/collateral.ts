/** States the form of the collateral that verifies a TDX quote, Intel's root key, and the platform in a PCK certificate. */
import { fromHex } from '../bytes'
import { Refused } from '../tacit_error'
import type { Certificate } from '../x509/certificate'
import { type DerReader, openDer, readOid, readSmallInteger, TAG } from '../x509/der'

/**
 * The Intel SGX Root CA key, valid since 2018-05-21: raw P-256 point x ‖ y, 64 bytes. Only a quote under this root comes
 * from real hardware. Source: "Intel SGX PCK Certificate and CRL Profile Specification".
 */
export const INTEL_ROOT_KEY: Uint8Array = fromHex(
  '0ba9c4c0c0c86193a3fe23d6b02cda10a8bbd4e88e48b4458561a36e705525f5' +
    '67918e2edc88e40d860bd0cc4ee26aacc988e505a953558c453f6b0904ae7394',
  64,
)!

/**
 * The form that dcap-qvl and Intel's PCS answers share: chains are PEM, leaf first, root last; revocation lists and
 * signatures are hex; the two documents are exact JSON text.
 */
export type Collateral = {
  pck_crl_issuer_chain: string
  root_ca_crl: string
  pck_crl: string
  tcb_info_issuer_chain: string
  /** The signed bytes: TDX TCB info version 3. */
  tcb_info: string
  /** ECDSA P-256, r ‖ s. */
  tcb_info_signature: string
  qe_identity_issuer_chain: string
  /** The signed bytes: TD_QE identity version 2. */
  qe_identity: string
  qe_identity_signature: string
}

export type PckPlatform = {
  /** Id of the physical machine, 16 bytes. */
  ppid: Uint8Array
  /** 16 SGX component versions. */
  cpu_svn: number[]
  pce_svn: number
  pce_id: Uint8Array
  fmspc: Uint8Array
}

const SGX = '1.2.840.113741.1.13.1'
const COMPONENTS = 16

/** @throws Refused when the certificate lacks the extension or a field of it. */
export function readPckPlatform(certificate: Certificate): PckPlatform {
  const extension = certificate.extensions.get(SGX)
  if (extension === undefined) throw new Refused('the PCK certificate has no SGX extension')
  const fields = readFields(openDer(extension.value, TAG.sequence), SGX)
  const tcb = readFields(field(fields, '2').open(TAG.sequence), `${SGX}.2`)
  return {
    ppid: octets(fields, '1', 16),
    cpu_svn: Array.from({ length: COMPONENTS }, (_, at) => readSmallInteger(field(tcb, String(at + 1)))),
    pce_svn: readSmallInteger(field(tcb, '17')),
    pce_id: octets(fields, '3', 2),
    fmspc: octets(fields, '4', 6),
  }
}

/** Readers by identifier, each positioned before its value. */
function readFields(list: DerReader, prefix: string): Map<string, DerReader> {
  const fields = new Map<string, DerReader>()
  while (!list.done) {
    const pair = list.open(TAG.sequence)
    const id = readOid(pair)
    const name = id.slice(prefix.length + 1)
    if (!id.startsWith(`${prefix}.`) || fields.has(name)) throw new Refused('the SGX extension is malformed')
    fields.set(name, pair)
  }
  return fields
}

function field(fields: ReadonlyMap<string, DerReader>, name: string): DerReader {
  const reader = fields.get(name)
  if (reader === undefined) throw new Refused('the SGX extension lacks a field')
  return reader
}

function octets(fields: ReadonlyMap<string, DerReader>, name: string, width: number): Uint8Array {
  const value = field(fields, name).value(TAG.octet_string)
  if (value.length !== width) throw new Refused('a field of the SGX extension has another width')
  return value
}
