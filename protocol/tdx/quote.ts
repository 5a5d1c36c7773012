/**
 * Parses an Intel TDX quote, version 4 or 5, ECDSA P-256 (Intel "TDX DCAP Quoting Library API", appendix A.3 and A.4), and its
 * report_data. Reads structure only: nothing here proves that a quote is genuine. Runs in a browser too.
 */
import { ByteReader, CodecError } from '../byte_stream'
import { compareBytes, concatBytes, equalBytes, fromHex, isZero, utf8 } from '../bytes'
import { array, fixed, mapped, sized, struct, u16, u32, type ValueOf, zeros } from '../codec'
import { PCK_CHAIN_BYTES_MAX } from '../limits'
import { sha256 } from '../sha256'
import { derOfPem } from '../x509/certificate'

/** The bytes are not exactly one TDX quote. The message names the part, never its content. */
export class MalformedQuote extends Error {
  override readonly name = 'MalformedQuote'
}

type Registers = readonly [Uint8Array, Uint8Array, Uint8Array, Uint8Array]
const TD_REPORT_FIELDS = {
  tee_tcb_svn: fixed(16),
  mr_seam: fixed(48),
  mr_signer_seam: fixed(48),
  seam_attributes: fixed(8),
  td_attributes: fixed(8),
  xfam: fixed(8),
  mr_td: fixed(48),
  mr_config_id: fixed(48),
  mr_owner: fixed(48),
  mr_owner_config: fixed(48),
  rtmr: mapped(
    array(fixed(48), 4),
    (registers) => registers as unknown as Registers,
    (registers) => [...registers],
  ),
  report_data: fixed(64),
}
const TD_REPORT_10 = struct(TD_REPORT_FIELDS)
const TD_REPORT_15 = struct({ ...TD_REPORT_FIELDS, tee_tcb_svn_15: fixed(16), mr_service_td_15: fixed(48) })
/** The two `*_15` fields exist in TD 1.5 only. */
export type TdReport = ValueOf<typeof TD_REPORT_10> & Partial<ValueOf<typeof TD_REPORT_15>>

/** SGX report of the quoting enclave. The fields of key separation (KSS), which Intel's does not use, are reserved too. */
const QE_REPORT = struct({
  cpu_svn: fixed(16),
  misc_select: fixed(4),
  reserved_1: zeros(28),
  attributes: fixed(16),
  mr_enclave: fixed(32),
  reserved_2: zeros(32),
  mr_signer: fixed(32),
  reserved_3: zeros(96),
  isv_prod_id: u16,
  isv_svn: u16,
  reserved_4: zeros(60),
  report_data: fixed(64),
})
export type QeReport = ValueOf<typeof QE_REPORT>

const HEADER = struct({
  version: u16,
  key_type: u16,
  tee: u32,
  reserved: zeros(4),
  qe_vendor_id: fixed(16),
  user_data: fixed(20),
})
/** Precedes the body in version 5. */
const BODY = struct({ type: u16, bytes: u32 })
const SIGNATURE_DATA = struct({
  signature: fixed(64),
  attestation_key: fixed(64),
  certification_type: u16,
  certification: sized(u32),
})
const CERTIFICATION = struct({
  qe_report_bytes: fixed(QE_REPORT.size!),
  qe_report_signature: fixed(64),
  qe_auth_data: sized(u16),
  chain_type: u16,
  chain: sized(u32),
})

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

const ECDSA_P256 = 2
const TEE_TDX = 0x81
const BODY_TD_10 = 2
const BODY_TD_15 = 3
const CERTIFICATION_QE_REPORT = 6
const CERTIFICATION_PCK_CHAIN = 5

/**
 * Parses a quote that fills `bytes`, followed by zero bytes only (hardware pads its buffer).
 * @throws MalformedQuote for any other version, key type, TEE, certification data, or length.
 */
export function parseQuote(bytes: Uint8Array): Quote {
  const from = new ByteReader(bytes)
  const { version, key_type, tee, qe_vendor_id, user_data } = within('the quote', () => HEADER.read(from))
  if (version !== 4 && version !== 5) throw new MalformedQuote('the version is neither 4 nor 5')
  if (key_type !== ECDSA_P256) throw new MalformedQuote('the attestation key is not ECDSA P-256')
  if (tee !== TEE_TDX) throw new MalformedQuote('the TEE is not TDX')
  const report = within('the TD report', () => readBody(from, version))
  const signed = bytes.slice(0, from.at)
  const signature_data = within('the signature data', () => sized(u32).read(from))
  if (!isZero(bytes.subarray(from.at)))
    throw new MalformedQuote('the quote is followed by other bytes than zero')
  return { version, qe_vendor_id, user_data, report, signed, ...readSignatureData(signature_data) }
}

/** @throws MalformedQuote that names the part, for bytes that are not its layout */
function within<T>(part: string, read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (error instanceof CodecError) throw new MalformedQuote(`${part}: ${error.message}`)
    throw error
  }
}

function readBody(from: ByteReader, version: 4 | 5): TdReport {
  if (version === 4) return TD_REPORT_10.read(from)
  const { type, bytes } = BODY.read(from)
  const report = type === BODY_TD_10 ? TD_REPORT_10 : type === BODY_TD_15 ? TD_REPORT_15 : undefined
  if (report === undefined) throw new MalformedQuote('the body is not a TD report')
  if (bytes !== report.size) throw new MalformedQuote('the body has another length than its type')
  return report.read(from)
}

function readSignatureData(bytes: Uint8Array) {
  const { certification_type, certification, ...signed } = within('the signature data', () =>
    SIGNATURE_DATA.decode(bytes),
  )
  if (certification_type !== CERTIFICATION_QE_REPORT)
    throw new MalformedQuote('the certification data is not a QE report')
  const { chain_type, chain, ...certified } = within('the QE certification data', () =>
    CERTIFICATION.decode(certification),
  )
  if (chain_type !== CERTIFICATION_PCK_CHAIN) throw new MalformedQuote('no PCK certificate chain inside')
  const qe_report = within('the QE report', () => QE_REPORT.decode(certified.qe_report_bytes))
  return { ...signed, ...certified, qe_report, pck_chain: readPckChain(chain) }
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

// The two layouts of a quote's 64 report_data bytes. They stay disjoint: an attestation's second half is a hash and never
// zero, an evidence quote's second half is always zero, so a caller's nonce cannot imitate evidence. Compare all 64 bytes.

/** Nonce (32 bytes; zero when the caller gave none) ‖ SHA-256(raw 32-byte `tee_pubkey`). */
export function attestationReportData(nonce: Uint8Array, tee_pubkey: Uint8Array): Uint8Array {
  if (nonce.length !== 32 || tee_pubkey.length !== 32) throw new RangeError('expected 32 bytes')
  return concatBytes(nonce, sha256(tee_pubkey))
}

const NONCES = utf8('tacit/nonces/v1')

/** Neither order nor side is of any use: only that the hash was made after both. */
function joined(one: Uint8Array, other: Uint8Array): Uint8Array {
  const [low, high] = compareBytes(one, other) < 0 ? [one, other] : [other, one]
  return sha256(concatBytes(NONCES, low, high))
}

/** A nonce or the hash over two of them, which `above` is; `sibling` is the other one. */
export type NonceLeaf = { hash: Uint8Array; sibling?: NonceLeaf; above?: NonceLeaf }

function above(left: NonceLeaf, right: NonceLeaf): NonceLeaf {
  const node = { hash: joined(left.hash, right.hash) }
  Object.assign(left, { sibling: right, above: node })
  Object.assign(right, { sibling: left, above: node })
  return node
}

/**
 * Makes one nonce for the quote of many callers, after each of theirs, so the quote is newer too. Two are joined in pairs until
 * one is left; one without a partner moves up unchanged. Hashes each nonce as it comes, to spread the work.
 */
export class JointNonce {
  /** Of 2^level nonces each, fewer from one to the next. */
  private readonly peaks: { node: NonceLeaf; level: number }[] = []

  add(nonce: Uint8Array): NonceLeaf {
    const leaf = { hash: nonce }
    let peak: (typeof this.peaks)[number] = { node: leaf, level: 0 }
    for (let last = this.peaks.at(-1); last?.level === peak.level; last = this.peaks.at(-1)) {
      peak = { node: above(last.node, peak.node), level: peak.level + 1 }
      this.peaks.pop()
    }
    this.peaks.push(peak)
    return leaf
  }

  /** The nonce of all; none is added any more. */
  close(): Uint8Array {
    const nodes = this.peaks.map(({ node }) => node)
    if (nodes.length === 0) throw new RangeError('expected a nonce')
    return nodes.reduceRight((right, left) => above(left, right)).hash
  }
}

/** The siblings that lead from a nonce to that of all, once it is closed: a caller alone has none. */
export function pathOf(leaf: NonceLeaf): Uint8Array[] {
  const path: Uint8Array[] = []
  for (let at: NonceLeaf | undefined = leaf; at?.sibling !== undefined; at = at.above)
    path.push(at.sibling.hash)
  return path
}

/** The nonce that a quote over this one among others carries. */
export const quotedNonce = (nonce: Uint8Array, path: readonly Uint8Array[]): Uint8Array =>
  path.reduce(joined, nonce)

/**
 * Takes the place of a key in the quotes by which two nodes agree on a link; the nonce is the hash of the agreed values. No
 * quote over a key of a venue has such a second half: a caller of `/attestation`, who chooses the first half, gets no proof.
 */
export const LINK_SIDES = {
  link_asks: sha256(utf8('tacit/link/v1/asks')),
  link_answers: sha256(utf8('tacit/link/v1/answers')),
}

/** SHA-256(bytes of sha256sum.txt) ‖ 32 zero bytes. */
export function evidenceReportData(checksums: Uint8Array): Uint8Array {
  return concatBytes(sha256(checksums), new Uint8Array(32))
}

/**
 * States the rules that every trust domain and its TDX module must fulfil (Intel "TDX Module Base Architecture"). Clients and
 * the boot self-check share them: no machine opens an epoch that every client rejects.
 */

/** Bit 28, SEPT_VE_DISABLE, and nothing else: no debugging, migration, performance monitoring or reserved bit. */
const TD_ATTRIBUTES = fromHex('0000001000000000', 8)!
const DEBUG_BITS = 0xff
const SEPT_VE_DISABLE_BYTE = 3
const SEPT_VE_DISABLE = 0x10
const MIGRATABLE = 0x20
const PERFMON_BYTE = 7
const PERFMON = 0x80
/** Byte of the TDX versions that holds the module's SVN; the next one is its major version. */
export const MODULE_SVN = 0
export const MODULE_MAJOR = 1

/** The first rule that the report breaks, as a sentence; undefined when it breaks none. */
export function tdFault(report: TdReport): string | undefined {
  const { td_attributes, mr_service_td_15, mr_signer_seam, seam_attributes } = report
  const faults = td_attributes[SEPT_VE_DISABLE_BYTE]!
  if ((td_attributes[0]! & DEBUG_BITS) !== 0) return 'the machine is under debug: the host reads its memory'
  if ((faults & SEPT_VE_DISABLE) === 0) return 'the host may inject memory faults (SEPT_VE_DISABLE is off)'
  if ((faults & MIGRATABLE) !== 0) return 'the host may move the machine with its keys (MIGRATABLE is on)'
  if ((td_attributes[PERFMON_BYTE]! & PERFMON) !== 0)
    return 'the machine exposes performance counters (PERFMON is on)'
  if (!equalBytes(td_attributes, TD_ATTRIBUTES)) return 'the machine has unexpected attributes'
  if (!isZero(mr_signer_seam)) return 'the TDX module is not signed by Intel'
  if (!isZero(seam_attributes)) return 'the TDX module has attributes, such as debugging'
  if (!isSameGeneration(report)) return 'the TDX module has another major version than at launch'
  if (mr_service_td_15 !== undefined && !isZero(mr_service_td_15))
    return 'a service TD is bound to the machine'
  return undefined
}

/** SVNs of different major versions cannot be compared, and no update of a running module crosses one. */
function isSameGeneration({ tee_tcb_svn, tee_tcb_svn_15 }: TdReport): boolean {
  return tee_tcb_svn_15 === undefined || tee_tcb_svn_15[MODULE_MAJOR] === tee_tcb_svn[MODULE_MAJOR]
}
