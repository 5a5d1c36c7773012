/** Signs quotes that no honest machine makes: any TD report, version 4 or 5, any certificate chain. */
import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { spkiOf } from '../../../enclave/x509'
import { concatBytes, utf8 } from '../../../protocol/bytes'
import { pemOfDer } from '../../../protocol/pem'
import { sha256 } from '../../../protocol/sha256'

const HEADER_BYTES = 48
const BODY_END = HEADER_BYTES + 584
const QE_REPORT_AT = 770
const QE_REPORT_BYTES = 384
const QE_REPORT_DATA_AT = 320

export type Signing = {
  pck: KeyObject
  /** DER, leaf first. */
  chain: Uint8Array[]
}
export type Changes = {
  header?: (header: Uint8Array) => void
  body?: (body: Uint8Array) => void
  qe_report?: (report: Uint8Array) => void
  /** The 64 bytes that a TD 1.5 report has more; makes a version 5 quote. */
  td_15?: Uint8Array
  /** A TD 1.0 report in a version 5 quote. */
  version_5?: boolean
}

/** Takes header, TD report and QE report of `quote`, changes them, and signs everything again. */
export function signAnyQuote(quote: Uint8Array, signing: Signing, changes: Changes = {}): Uint8Array {
  const header = quote.slice(0, HEADER_BYTES)
  const body = quote.slice(HEADER_BYTES, BODY_END)
  const report = quote.slice(QE_REPORT_AT, QE_REPORT_AT + QE_REPORT_BYTES)
  const five = changes.td_15 !== undefined || changes.version_5 === true
  if (five) header[0] = 5
  changes.header?.(header)
  changes.body?.(body)
  const full_body = concatBytes(body, changes.td_15 ?? new Uint8Array())
  const descriptor = five ? concatBytes(u16(changes.td_15 ? 3 : 2), u32(full_body.length)) : new Uint8Array()
  const signed = concatBytes(header, descriptor, full_body)

  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const point = spkiOf(privateKey).subarray(-64)
  const auth_data = new Uint8Array(32).fill(3)
  report.set(sha256(point, auth_data), QE_REPORT_DATA_AT)
  changes.qe_report?.(report)
  const pem = utf8(`${signing.chain.map((der) => pemOfDer(der, 'CERTIFICATE')).join('')}\0`)
  const inner = concatBytes(u16(32), auth_data, u16(5), u32(pem.length), pem)
  const certification = concatBytes(report, signRaw(report, signing.pck), inner)
  const certified = concatBytes(u16(6), u32(certification.length), certification)
  const signature_data = concatBytes(signRaw(signed, privateKey), point, certified)
  return concatBytes(signed, u32(signature_data.length), signature_data)
}

const signRaw = (message: Uint8Array, key: KeyObject): Uint8Array =>
  sign('sha256', message, { key, dsaEncoding: 'ieee-p1363' })
const u16 = (value: number): Uint8Array => Uint8Array.of(value & 0xff, value >> 8)
const u32 = (value: number): Uint8Array => concatBytes(u16(value & 0xffff), u16(value >>> 16))
