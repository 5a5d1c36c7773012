/**
 * The layout of an Intel TDX quote, version 4 or 5, ECDSA P-256 (Intel "TDX DCAP Quoting Library API", appendix A.3 and
 * A.4). Reads structure only: nothing here says that a quote is genuine. Runs in a browser too.
 */
import { isZero } from '../bytes'
import { PCK_CHAIN_BYTES_MAX } from '../limits'
import { derOfPem } from '../pem'

/** The bytes are not exactly one TDX quote. The message names the part, never its content. */
export class MalformedQuote extends Error {
  override readonly name = 'MalformedQuote'
}

/** TD 1.0 report body, 584 bytes; the two `*_15` fields exist in the 648 bytes of TD 1.5 only. */
export type TdReport = {
  tee_tcb_svn: Uint8Array
  mr_seam: Uint8Array
  mr_signer_seam: Uint8Array
  seam_attributes: Uint8Array
  td_attributes: Uint8Array
  xfam: Uint8Array
  mr_td: Uint8Array
  mr_config_id: Uint8Array
  mr_owner: Uint8Array
  mr_owner_config: Uint8Array
  rtmr: readonly [Uint8Array, Uint8Array, Uint8Array, Uint8Array]
  report_data: Uint8Array
  tee_tcb_svn_15?: Uint8Array
  mr_service_td_15?: Uint8Array
}

/** SGX report of the quoting enclave, 384 bytes. */
export type QeReport = {
  cpu_svn: Uint8Array
  misc_select: Uint8Array
  attributes: Uint8Array
  mr_enclave: Uint8Array
  mr_signer: Uint8Array
  isv_prod_id: number
  isv_svn: number
  report_data: Uint8Array
}

export type Quote = {
  version: 4 | 5
  qe_vendor_id: Uint8Array
  user_data: Uint8Array
  report: TdReport
  /** The bytes that `signature` covers: header, body descriptor (version 5) and body. */
  signed: Uint8Array
  /** Raw r ‖ s, 64 bytes. */
  signature: Uint8Array
  /** Raw x ‖ y, 64 bytes. */
  attestation_key: Uint8Array
  /** Raw bytes of the report that `qe_report_signature` covers. */
  qe_report_bytes: Uint8Array
  qe_report: QeReport
  qe_report_signature: Uint8Array
  qe_auth_data: Uint8Array
  /** DER certificates as carried, leaf first. */
  pck_chain: Uint8Array[]
}

const TD_REPORT_10_BYTES = 584
const TD_REPORT_15_BYTES = 648
const QE_REPORT_BYTES = 384
const ECDSA_P256 = 2
const TEE_TDX = 0x81
const BODY_TD_10 = 2
const BODY_TD_15 = 3
const CERTIFICATION_QE_REPORT = 6
const CERTIFICATION_PCK_CHAIN = 5

/** A cursor that refuses to read past the end. */
class Reader {
  at = 0
  constructor(
    private readonly bytes: Uint8Array,
    private readonly part: string,
  ) {}
  take(length: number): Uint8Array {
    if (this.at + length > this.bytes.length) throw new MalformedQuote(`${this.part} is cut short`)
    this.at += length
    return this.bytes.slice(this.at - length, this.at)
  }
  zeros(length: number): void {
    if (!isZero(this.take(length))) throw new MalformedQuote(`a reserved byte of ${this.part} is not zero`)
  }
  u16(): number {
    const [low, high] = this.take(2)
    return low! | (high! << 8)
  }
  u32(): number {
    return this.u16() + this.u16() * 0x1_0000
  }
  rest(): Uint8Array {
    return this.take(this.bytes.length - this.at)
  }
  end(): void {
    if (this.at !== this.bytes.length) throw new MalformedQuote(`${this.part} has surplus bytes`)
  }
}

/**
 * Parses a quote that fills `bytes`, followed by nothing but zero bytes (hardware pads its buffer).
 * @throws MalformedQuote for any other version, key type, TEE, certification data, or length.
 */
export function parseQuote(bytes: Uint8Array): Quote {
  const reader = new Reader(bytes, 'the quote')
  const version = reader.u16()
  if (version !== 4 && version !== 5) throw new MalformedQuote('the version is neither 4 nor 5')
  if (reader.u16() !== ECDSA_P256) throw new MalformedQuote('the attestation key is not ECDSA P-256')
  if (reader.u32() !== TEE_TDX) throw new MalformedQuote('the TEE is not TDX')
  reader.zeros(4)
  const qe_vendor_id = reader.take(16)
  const user_data = reader.take(20)
  const report = readBody(reader, version)
  const signed = bytes.slice(0, reader.at)
  const signature_data = reader.take(reader.u32())
  if (!isZero(reader.rest())) throw new MalformedQuote('the quote is followed by other bytes than zero')
  return { version, qe_vendor_id, user_data, report, signed, ...readSignatureData(signature_data) }
}

function readBody(reader: Reader, version: 4 | 5): TdReport {
  if (version === 4) return readTdReport(reader.take(TD_REPORT_10_BYTES))
  const type = reader.u16()
  const length = reader.u32()
  const expected =
    type === BODY_TD_10 ? TD_REPORT_10_BYTES : type === BODY_TD_15 ? TD_REPORT_15_BYTES : undefined
  if (expected === undefined) throw new MalformedQuote('the body is not a TD report')
  if (length !== expected) throw new MalformedQuote('the body has another length than its type')
  return readTdReport(reader.take(expected))
}

function readTdReport(body: Uint8Array): TdReport {
  const reader = new Reader(body, 'the TD report')
  const report: TdReport = {
    tee_tcb_svn: reader.take(16),
    mr_seam: reader.take(48),
    mr_signer_seam: reader.take(48),
    seam_attributes: reader.take(8),
    td_attributes: reader.take(8),
    xfam: reader.take(8),
    mr_td: reader.take(48),
    mr_config_id: reader.take(48),
    mr_owner: reader.take(48),
    mr_owner_config: reader.take(48),
    rtmr: [reader.take(48), reader.take(48), reader.take(48), reader.take(48)],
    report_data: reader.take(64),
  }
  if (body.length === TD_REPORT_15_BYTES) {
    report.tee_tcb_svn_15 = reader.take(16)
    report.mr_service_td_15 = reader.take(48)
  }
  reader.end()
  return report
}

function readSignatureData(bytes: Uint8Array) {
  const reader = new Reader(bytes, 'the signature data')
  const signature = reader.take(64)
  const attestation_key = reader.take(64)
  if (reader.u16() !== CERTIFICATION_QE_REPORT)
    throw new MalformedQuote('the certification data is not a QE report')
  const certification = new Reader(reader.take(reader.u32()), 'the QE certification data')
  reader.end()
  const qe_report_bytes = certification.take(QE_REPORT_BYTES)
  const qe_report_signature = certification.take(64)
  const qe_auth_data = certification.take(certification.u16())
  if (certification.u16() !== CERTIFICATION_PCK_CHAIN)
    throw new MalformedQuote('no PCK certificate chain inside')
  const pck_chain = readPckChain(certification.take(certification.u32()))
  certification.end()
  const qe_report = readQeReport(qe_report_bytes)
  return {
    signature,
    attestation_key,
    qe_report_bytes,
    qe_report,
    qe_report_signature,
    qe_auth_data,
    pck_chain,
  }
}

/** Reserved bytes are zero, and so are the fields of key separation (KSS), which Intel's quoting enclave does not use. */
function readQeReport(bytes: Uint8Array): QeReport {
  const reader = new Reader(bytes, 'the QE report')
  const cpu_svn = reader.take(16)
  const misc_select = reader.take(4)
  reader.zeros(28)
  const attributes = reader.take(16)
  const mr_enclave = reader.take(32)
  reader.zeros(32)
  const mr_signer = reader.take(32)
  reader.zeros(96)
  const isv_prod_id = reader.u16()
  const isv_svn = reader.u16()
  reader.zeros(60)
  return {
    cpu_svn,
    misc_select,
    attributes,
    mr_enclave,
    mr_signer,
    isv_prod_id,
    isv_svn,
    report_data: reader.take(64),
  }
}

/** The chain is C text: hardware ends it with a zero byte. */
function readPckChain(bytes: Uint8Array): Uint8Array[] {
  if (bytes.length > PCK_CHAIN_BYTES_MAX) throw new MalformedQuote('the PCK certificate chain is too long')
  const text_length = bytes.at(-1) === 0 ? bytes.length - 1 : bytes.length
  const text = String.fromCharCode(...bytes.subarray(0, text_length))
  const chain = derOfPem(text, 'CERTIFICATE')
  if (chain === undefined) throw new MalformedQuote('the PCK certificate chain is not PEM')
  return chain
}
