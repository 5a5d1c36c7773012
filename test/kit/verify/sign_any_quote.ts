/** Quotes for tests: real ones, any that no honest machine makes, and where every field of one lies. */

import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { spkiOf } from '../../../enclave/x509'
import { concatBytes, utf8 } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import type { Collateral } from '../../../protocol/tdx/collateral'
import { pemOfDer } from '../../../protocol/x509/certificate'

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

/** Header and TD report, absolute offsets (Intel "TDX DCAP Quoting Library API", appendix A.3). */
const FIXED: readonly [field: string, at: number, width: number][] = [
  ['version', 0, 2],
  ['attestation key type', 2, 2],
  ['tee type', 4, 4],
  ['reserved', 8, 4],
  ['qe vendor', 12, 16],
  ['user data', 28, 20],
  ['tee_tcb_svn', 48, 16],
  ['mr_seam', 64, 48],
  ['mr_signer_seam', 112, 48],
  ['seam_attributes', 160, 8],
  ['td_attributes', 168, 8],
  ['xfam', 176, 8],
  ['mr_td', 184, 48],
  ['mr_config_id', 232, 48],
  ['mr_owner', 280, 48],
  ['mr_owner_config', 328, 48],
  ['rtmr0', 376, 48],
  ['rtmr1', 424, 48],
  ['rtmr2', 472, 48],
  ['rtmr3', 520, 48],
  ['report_data', 568, 64],
  ['signature data length', 632, 4],
  ['signature r', 636, 32],
  ['signature s', 668, 32],
  ['attestation key x', 700, 32],
  ['attestation key y', 732, 32],
  ['certification type', 764, 2],
  ['certification length', 766, 4],
  ['qe report', 770, 384],
  ['qe report signature', 1154, 64],
  ['qe auth data length', 1218, 2],
  ['qe auth data', 1220, 32],
  ['inner certification type', 1252, 2],
  ['inner certification length', 1254, 4],
]
const CHAIN_AT = 1258
const CHAIN_STEP = 97

/** The quote with one bit flipped, at the first, middle and last byte of each field and all along the PCK chain. */
export function* fieldFlips(quote: Uint8Array): Generator<{ field: string; flipped: Uint8Array }> {
  for (const [field, at, width] of FIXED)
    for (const offset of new Set([0, width >> 1, width - 1]))
      yield { field: `${field}+${offset}`, flipped: flip(quote, at + offset) }
  const end = 636 + new DataView(quote.buffer, quote.byteOffset).getUint32(632, true)
  for (let at = CHAIN_AT; at < end - 1; at += CHAIN_STEP) {
    const flipped = flip(quote, at)
    // Line ends of the PEM text carry nothing: two spellings of one chain are one chain.
    if (quote[at] !== 0x0a) yield { field: `pck chain+${at - CHAIN_AT}`, flipped }
  }
  yield { field: 'byte behind the quote', flipped: flip(quote, quote.length - 1) }
}

function flip(quote: Uint8Array, at: number): Uint8Array {
  const flipped = quote.slice()
  flipped[at]! ^= 1
  return flipped
}

const FOLDER = join(import.meta.dir, '../../../../shared/quotes')
export const HAVE_QUOTES = existsSync(FOLDER)
if (!HAVE_QUOTES) console.log('skipped: the real quotes in ../shared/quotes are absent')

type GetQuoteAnswer = { quote: string; event_log: string; report_data: string; vm_config: string }
const readText = (path: string): string => readFileSync(join(FOLDER, path), 'utf8')
export const readAnswer = (folder: string): GetQuoteAnswer => JSON.parse(readText(`${folder}/getquote.json`))
const readCollateral = (folder: string): Collateral => JSON.parse(readText(`${folder}/collateral.json`))
export const pathOf = (path: string): string => join(FOLDER, path)

/** The two whose collateral is public, with a time at which it was current. */
export const realQuotes = (): {
  name: string
  quote: Uint8Array
  collateral: Collateral
  now_ms: number
}[] => [
  {
    name: 'TD 1.0 sample',
    quote: new Uint8Array(readFileSync(join(FOLDER, 'dcap-qvl-b0c06f/quote.bin'))),
    collateral: readCollateral('dcap-qvl-b0c06f'),
    now_ms: Date.parse('2025-06-19T12:16:03Z'),
  },
  {
    name: 'dstack 0.5',
    quote: new Uint8Array(Buffer.from(readAnswer('dstack-0.5-90c06f').quote, 'hex')),
    collateral: readCollateral('dstack-0.5-90c06f'),
    now_ms: Date.parse('2026-02-18T12:58:51Z'),
  },
]
