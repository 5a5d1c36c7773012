/** Reads the platform from a PCK certificate ("SGX PCK Certificate and CRL Profile Specification", section 1.3.5). */

import { Refused } from '../tacit_error'
import type { Certificate } from '../x509/certificate'
import { type DerReader, openDer, readOid, readSmallInteger, TAG } from '../x509/der'

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
