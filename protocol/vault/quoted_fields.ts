/** Makes the fields of `register_platform` and `open_attested_epoch` from what a quote carries. */
import { concatBytes, fromHex, toHex, utf8 } from '../bytes'
import { parseEventLog } from '../tdx/event_log'
import { readPckPlatform } from '../tdx/pck_extension'
import type { Quote } from '../tdx/quote'
import { type Certificate, readCertificate } from '../x509/certificate'
import { imageId, type OpenAttestedEpochFields } from './epochs'
import type { RegisterPlatformFields } from './platforms'

/** Order of the curve P-256. */
const ORDER = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n

/** Parity and x of a point x ‖ y. */
export const compressedKey = (point: Uint8Array): Uint8Array =>
  concatBytes(Uint8Array.of(2 + (point[63]! & 1)), point.subarray(0, 32))

/** r ‖ s of the same signature with the low s, which alone the precompile takes. */
export function lowSignature(signature: Uint8Array): Uint8Array {
  const s = BigInt(`0x${toHex(signature.subarray(32))}`)
  if (s <= ORDER / 2n) return signature
  const low = (ORDER - s).toString(16).padStart(64, '0')
  return concatBytes(signature.subarray(0, 32), fromHex(low, 32)!)
}

/**
 * @param chain DER: PCK certificate, its authority, the root
 * @throws MalformedDer when one is no certificate. Whether they are genuine is the program's to say.
 */
export function platformOf(chain: readonly Uint8Array[]): Omit<RegisterPlatformFields, 'program' | 'payer'> {
  if (chain.length !== 3) throw new RangeError('a chain has three certificates')
  const [leaf, authority, root] = chain.map(readCertificate) as [Certificate, Certificate, Certificate]
  return {
    key: compressedKey(leaf.public_key),
    leaf_signature: lowSignature(leaf.signature),
    authority_key: compressedKey(authority.public_key),
    authority_signature: lowSignature(authority.signature),
    root_key: compressedKey(root.public_key),
    leaf: leaf.signed,
    authority: authority.signed,
  }
}

type QuotedFields =
  | 'quote_signature'
  | 'parity'
  | 'attestation_key'
  | 'qe_signature'
  | 'pck_key'
  | 'qe_report'
  | 'signed'
  | 'auth_data'

/** What an opening takes of a quote, its signatures with the low s. */
export function evidenceOf(quote: Quote): Pick<OpenAttestedEpochFields, QuotedFields> {
  const { attestation_key, pck_chain } = quote
  return {
    quote_signature: lowSignature(quote.signature),
    parity: compressedKey(attestation_key)[0]!,
    attestation_key,
    qe_signature: lowSignature(quote.qe_report_signature),
    pck_key: compressedKey(readCertificate(pck_chain[0]!).public_key),
    qe_report: quote.qe_report_bytes,
    signed: quote.signed,
    auth_data: quote.qe_auth_data,
  }
}

/** What an opening takes of a quote and its event log. @throws Refused when certificate or log is malformed */
export function quotedFields(
  quote: Quote,
  event_log: string,
): Pick<OpenAttestedEpochFields, QuotedFields | 'log' | 'image' | 'ppid' | 'fmspc'> {
  const { ppid, fmspc } = readPckPlatform(readCertificate(quote.pck_chain[0]!))
  const log = parseEventLog(event_log).filter(({ imr }) => imr === 3)
  return {
    ...evidenceOf(quote),
    log: log.map(({ event, event_payload: payload }) => ({ name: utf8(event), payload })),
    image: imageId(quote.report),
    ppid,
    fmspc,
  }
}
