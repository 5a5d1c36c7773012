/** Checks 5.1 to 5.4, 7.1 and 7.2: report data, binding, TLS key and evidence files; which machine it is, and where. */
import { decodeBase58 } from '../../../protocol/base58'
import {
  BINDING_BODY,
  BINDING_BYTES,
  decodeLocation,
  decodeLogHead,
  type LocationLevel,
  STATEMENT_BODY,
  STATEMENT_BYTES,
} from '../../../protocol/bodies/statements'
import { equalBytes, fromAnyHex, fromHex, toHex, utf8 } from '../../../protocol/bytes'
import { extendsTree, isInTree, treeLeaf } from '../../../protocol/rfc6962_tree'
import { sha256 } from '../../../protocol/sha256'
import {
  attestationReportData,
  evidenceReportData,
  quotedNonce,
  type TdReport,
} from '../../../protocol/tdx/quote'
import type { Attestation } from '../../../protocol/wire/public'
import { derOfPem, spkiOfCertificate } from '../../../protocol/x509/certificate'
import { type LogProof, type MachineEvidence, readChecksums } from '../evidence_bundle'
import { parseJson } from '../json_document'
import type { LocationAuthority, LocationLog } from '../policy'
import { verifyUnderCollateral } from '../tdx/genuine_quote'
import { Refused, reasonOf, requireThat } from '../transcript'
import { isSignedByEd25519 } from '../verify_receipt'
import {
  type CheckValues,
  established,
  type RunCheck,
  type RunMachineCheck,
  Skipped,
  type VerificationCase,
} from './verification_case'

/** The nonce in the signed data: this one, or a root to which a path leads from it. Neither was known before this one. */
function nonceIn({ nonce, attestation }: Pick<MachineEvidence, 'nonce' | 'attestation'>): Uint8Array {
  const bytes = fromHex(nonce, 32)
  if (bytes === undefined) throw new Refused('no nonce was sent')
  return quotedNonce(
    bytes,
    (attestation.nonce_path ?? []).map((one) => fromHex(one, 32)!),
  )
}

/** Check 5.1: all 64 bytes of report_data are this nonce, or one that callers share, and the settlement key. */
export const checkReportData: RunMachineCheck = (verification) => {
  const { info, attestation, nonce } = verification.bundle
  const { report_data } = established(verification, 'genuine').quote.report
  requireThat(/[1-9a-f]/.test(nonce), 'no nonce was sent')
  const quoted = nonceIn(verification.bundle)
  const tee_pubkey = decodeBase58(attestation.tee_pubkey, 32)
  if (tee_pubkey === undefined) throw new Refused('the settlement key is malformed')
  requireThat(info.tee_pubkey === attestation.tee_pubkey, 'the venue states two settlement keys')
  requireThat(attestation.report_data === toHex(report_data), 'the stated report_data is not the quoted one')
  requireThat(
    equalBytes(report_data, attestationReportData(quoted, tee_pubkey)),
    'report_data is not this nonce and the settlement key',
  )
  return { tee_pubkey: attestation.tee_pubkey, nonce }
}

/** Check 5.2: the settlement key certifies the statement key, which signs venue, nonce, instance, epoch and TLS key. */
export const checkBinding: RunCheck = async (verification) => {
  const { info, attestation } = verification.bundle
  // Without the quote nothing authenticates the settlement key.
  established(verification, 'genuine')
  const { instance_id } = established(verification, 'claims')
  const signed = readSigned(attestation)
  requireThat(
    await isSignedByEd25519(signed.certificate_signature, signed.certificate, signed.tee_pubkey),
    'the statement key is not certified by the settlement key',
  )
  requireThat(
    await isSignedByEd25519(signed.signature, signed.body, signed.statement_key),
    'the binding is not signed by the statement key',
  )
  const statement = STATEMENT_BODY.decode(signed.certificate)
  const binding = BINDING_BODY.decode(signed.body)
  requireThat(equalBytes(statement.statement_key, signed.statement_key), 'another statement key is certified')
  requireThat(equalBytes(statement.venue, binding.venue), 'the statement key is certified for another venue')
  requireThat(statement.epoch === binding.epoch, 'the statement key is certified for another epoch')
  requireThat(toHex(binding.venue) === info.venue, 'the binding is of another venue')
  requireThat(equalBytes(binding.nonce, nonceIn(verification.bundle)), 'the binding answers another nonce')
  const expected_instance = instance_id.length === 0 ? new Uint8Array(20) : instance_id
  requireThat(equalBytes(binding.instance_id, expected_instance), 'the binding is of another instance')
  requireThat(binding.epoch === BigInt(info.epoch), 'the binding is of another epoch')
  verification.established.binding = binding
  return {
    venue: info.venue,
    epoch: String(binding.epoch),
    slot: String(binding.slot),
    statement_key: attestation.binding.statement_key,
  }
}

function readSigned({ binding, tee_pubkey }: Attestation) {
  const fields = {
    body: fromHex(binding.body, BINDING_BYTES),
    signature: fromHex(binding.signature, 64),
    certificate: fromHex(binding.certificate, STATEMENT_BYTES),
    certificate_signature: fromHex(binding.certificate_signature, 64),
    statement_key: decodeBase58(binding.statement_key, 32),
    tee_pubkey: decodeBase58(tee_pubkey, 32),
  }
  if (Object.values(fields).includes(undefined)) throw new Refused('the binding is malformed')
  return fields as { [K in keyof typeof fields]: Uint8Array }
}

/** Check 5.3: the TLS key in the binding is that of this connection. */
export const checkTlsKey: RunCheck = (verification) => {
  const { spki_sha256 } = verification.bundle
  const bound = toHex(established(verification, 'binding').spki_sha256)
  if (spki_sha256 === null) throw new Skipped('tls_key_hidden')
  requireThat(spki_sha256 === bound, 'the connection ends at another TLS key than the attested one')
  return { spki_sha256 }
}

/** Check 5.4: the evidence files carry a genuine quote of the same machine over the certificate of the bound TLS key. */
export const checkEvidence: RunCheck = async (verification) => {
  const { bundle, policy, now_ms } = verification
  const { quote_json, cert_pem, sha256sum_txt, more } = bundle.evidences
  const attested = established(verification, 'genuine').quote.report
  const { spki_sha256 } = established(verification, 'binding')
  const collateral = established(verification, 'collateral')
  const { quote } = await verifyUnderCollateral(quoteOf(quote_json), collateral, policy, now_ms)
  requireSameMachine(quote.report, attested)
  // All 64 bytes: the caller of /attestation chooses the first half of its report_data and could choose this hash.
  requireThat(
    equalBytes(quote.report.report_data, evidenceReportData(utf8(sha256sum_txt))),
    'the evidence quote is not over sha256sum.txt',
  )
  const listed = readChecksums(sha256sum_txt)
  requireThat(listed.has('cert.pem'), 'cert.pem is not listed')
  for (const [name, hash] of listed) {
    const text = name === 'cert.pem' ? cert_pem : Object.hasOwn(more, name) ? more[name] : undefined
    if (text === undefined) throw new Refused(`${name} is listed and could not be read`)
    requireThat(toHex(sha256(utf8(text))) === hash, `${name} is not the listed one`)
  }
  const [leaf] = derOfPem(cert_pem, 'CERTIFICATE') ?? []
  if (leaf === undefined) throw new Refused('cert.pem is not a certificate')
  requireThat(equalBytes(sha256(spkiOfCertificate(leaf)), spki_sha256), 'cert.pem is of another TLS key')
  return { files: [...listed.keys()].join(' ') }
}

function quoteOf(quote_json: string): Uint8Array {
  const quote = (parseJson(quote_json) as { quote?: unknown } | null | undefined)?.quote
  const bytes = typeof quote === 'string' ? fromAnyHex(quote) : undefined
  if (bytes === undefined) throw new Refused('quote.json holds no quote')
  return bytes
}

function requireSameMachine(evidence: TdReport, attested: TdReport): void {
  const measured = ({ mr_td, mr_config_id, rtmr }: TdReport) => [mr_td, mr_config_id, ...rtmr]
  const others = measured(attested)
  const same = measured(evidence).every((register, at) => equalBytes(register, others[at]!))
  requireThat(same, 'the evidence quote is of another machine')
}

/** Check 7.1: the machine is one of the policy's list. */
export const checkMachineList: RunCheck = (verification) => {
  const ppid = toHex(established(verification, 'genuine').platform.ppid)
  const { ppids } = verification.policy
  if (ppids === undefined) throw new Skipped('machines_unpinned', `; this one is ${ppid}`)
  requireThat(ppids.includes(ppid), `machine ${ppid} is not listed`)
  return { ppid }
}

/** Check 7.2: enough authorities of the policy vouch for this machine and instance. */
export const checkLocation: RunCheck = async (verification) => {
  const { location } = verification.policy
  const { ppid } = established(verification, 'genuine').platform
  established(verification, 'claims')
  if (location === undefined) throw new Skipped('location_unnamed', `; the machine is ${toHex(ppid)}`)
  const vouched: CheckValues = {}
  const refusals: string[] = []
  for (const authority of location.authorities)
    try {
      vouched[authority.name] = await vouch(verification, authority)
    } catch (error) {
      refusals.push(`${authority.name}: ${reasonOf(error)}`)
    }
  requireThat(
    Object.keys(vouched).length >= location.minimum,
    `${Object.keys(vouched).length} of ${location.minimum} authorities vouch (${refusals.join('; ')})`,
  )
  return vouched
}

/** @returns level and site. @throws Refused when the authority does not vouch */
async function vouch(verification: VerificationCase, authority: LocationAuthority): Promise<string> {
  const { ppid } = established(verification, 'genuine').platform
  if ('ppids' in authority) {
    requireThat(authority.ppids.includes(toHex(ppid)), 'the machine is not on its list')
    return 'pinned list'
  }
  const { bundle, now_ms } = verification
  const answer = bundle.location.find(({ authority: name }) => name === authority.name)
  if (answer === undefined) throw new Refused(bundle.missing.location ?? 'it was not asked')
  const [body, signature] = [fromAnyHex(answer.body), fromAnyHex(answer.signature)]
  if (body === undefined || signature === undefined) throw new Refused('its statement is malformed')
  const key = decodeBase58(authority.key, 32)!
  requireThat(await isSignedByEd25519(signature, body, key), 'its statement is not signed by its key')
  const statement = decodeLocation(body)
  const { instance_id } = established(verification, 'claims')
  const instance = instance_id.length === 0 ? new Uint8Array(20) : instance_id
  const levels = 'log' in authority ? INSPECTED : authority.levels
  requireThat(equalBytes(statement.ppid, ppid), 'its statement is about another machine')
  requireThat(equalBytes(statement.instance_id, instance), 'its statement is about another instance')
  requireThat(levels.includes(statement.level), `its statement has level ${statement.level}`)
  const now_s = BigInt(Math.floor(now_ms / 1000))
  requireThat(now_s >= statement.issued_s, 'its statement is from the future')
  requireThat(now_s <= statement.expires_s, 'its statement has expired')
  const place = `${statement.level} ${statement.site}`
  if (!('log' in authority)) return place
  return `${place}, ${await requireLogged(treeLeaf(body, signature), answer.log, authority.log)}`
}

/** A log has statements of inspections only. */
const INSPECTED: readonly LocationLevel[] = ['inspected']

/** @returns place in the log. @throws Refused unless the log has the leaf, at a head that extends the pinned one */
async function requireLogged(
  leaf: Uint8Array,
  proof: LogProof | undefined,
  pinned: LocationLog,
): Promise<string> {
  if (proof === undefined) throw new Refused('it gives no proof of its log')
  const [head, signature] = [fromAnyHex(proof.head), fromAnyHex(proof.signature)]
  const [path, consistency] = [readNodes(proof.path), readNodes(proof.consistency)]
  if (!head || !signature || !path || !consistency) throw new Refused('the proof of its log is malformed')
  const key = decodeBase58(pinned.key, 32)!
  requireThat(await isSignedByEd25519(signature, head, key), 'the head of its log is not signed by the log')
  const current = decodeLogHead(head)
  const seen = { size: BigInt(pinned.size), root: fromHex(pinned.root, 32)! }
  requireThat(extendsTree(seen, current, consistency), 'its log does not extend the pinned head')
  requireThat(isInTree(leaf, BigInt(proof.index), current, path), 'its statement is not in its log')
  return `number ${proof.index} of ${current.size}`
}

/** The nodes of a path; undefined unless it is hex of whole nodes. */
function readNodes(text: string): Uint8Array[] | undefined {
  const bytes = fromAnyHex(text)
  if (bytes === undefined || bytes.length % 32 !== 0) return undefined
  return Array.from({ length: bytes.length / 32 }, (_, at) => bytes.subarray(32 * at, 32 * at + 32))
}
