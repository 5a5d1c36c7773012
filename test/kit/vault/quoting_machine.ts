/** A made-up machine: its evidence, its quotes for openings, and the vault's announcements for it. */
import { sha384 } from '@noble/hashes/sha2.js'
import { concatBytes, fromHex, utf8 } from '../../../protocol/bytes'
import { u16, u32 } from '../../../protocol/codec'
import { sha256 } from '../../../protocol/sha256'
import { type AnnouncedTopic, minimumValue } from '../../../protocol/vault/admin'
import {
  epochReportData,
  imageId,
  type LoggedEvent,
  type OpenAttestedEpochFields,
  type OpeningFields,
} from '../../../protocol/vault/epochs'
import {
  type Chain,
  COMPONENTS,
  developmentChain,
  FMSPC,
  PCE_SVN,
  PCK,
  PlatformKey,
  PPID,
  ROOT,
} from './development_chain'

const bytes32 = (name: string): Uint8Array => sha256(utf8(name))

/** A machine's own statements. */
export type Evidence = {
  /** Header, descriptor and TD report. */
  signed: Uint8Array
  qe_report: Uint8Array
  auth_data: Uint8Array
  log: LoggedEvent[]
}
/** A machine's certificate and its fields. */
export type Machine = {
  chain: Chain
  ppid: Uint8Array
  fmspc: Uint8Array
  components: Uint8Array
  pce_svn: number
}

const HEADER_BYTES = 48
/** Where the TD report begins in the signed part. */
export const bodyOf = (signed: Uint8Array): number => (signed[0] === 5 ? HEADER_BYTES + 6 : HEADER_BYTES)
/** Places in a TD report. */
export const TD = {
  tee_tcb_svn: 0,
  mr_seam: 16,
  mr_signer_seam: 64,
  seam_attributes: 112,
  td_attributes: 120,
  xfam: 128,
  mr_td: 136,
  mr_config_id: 184,
  rtmr0: 328,
  rtmr1: 376,
  rtmr2: 424,
  rtmr3: 472,
  report_data: 520,
  tee_tcb_svn_2: 584,
  mr_service_td: 600,
} as const
/** Places in the quoting enclave's report. */
export const QE = {
  misc_select: 16,
  attributes: 48,
  mr_signer: 128,
  product: 256,
  svn: 258,
  report_data: 320,
}

export const event = (name: string, payload: Uint8Array = new Uint8Array()): LoggedEvent => ({
  name: utf8(name),
  payload,
})
export const COMPOSE_HASH = bytes32('attested build')
const APP_ID = bytes32('app id').slice(0, 20)
const KEY_PROVIDER = utf8('{"name":"kms","id":"development"}')

const TEE_TCB_SVN = fromHex('06010300000000000000000000000000', 16)!
const QE_SVN = 4
const QE_SIGNER = fromHex('dc9e2a7c6f948f17474e34a7fc43ed030f7c1563f1babddf6340c82e0e54a8c5', 32)!

/** A made-up machine's evidence. `body`: type of a version 5 quote. */
export function developmentEvidence(body?: 2 | 3): Evidence {
  const [size, version] = [body === 3 ? 648 : 584, body === undefined ? 4 : 5]
  const vendor = fromHex('939a7233f79c4ca9940a0db3957f0607', 16)!
  const header = concatBytes(
    u16.encode(version),
    u16.encode(2),
    u32.encode(0x81),
    new Uint8Array(4),
    vendor,
    new Uint8Array(20),
  )
  const report = new Uint8Array(size)
  for (const name of ['mr_seam', 'mr_td', 'rtmr0', 'rtmr1', 'rtmr2'] as const)
    report.set(sha384(utf8(`development ${name}`)), TD[name])
  report.set(TEE_TCB_SVN, TD.tee_tcb_svn)
  if (body === 3) report.set(TEE_TCB_SVN, TD.tee_tcb_svn_2)
  report[TD.td_attributes + 3] = 0x10
  report.set(fromHex('e702060000000000', 8)!, TD.xfam)
  report[TD.mr_config_id] = 1
  report.set(COMPOSE_HASH, TD.mr_config_id + 1)
  const qe_report = new Uint8Array(384)
  qe_report[QE.attributes] = 0x15
  qe_report.set(QE_SIGNER, QE.mr_signer)
  qe_report.set([2, 0, QE_SVN, 0], QE.product)
  const log = [
    event('system-preparing'),
    event('app-id', APP_ID),
    event('compose-hash', COMPOSE_HASH),
    event('instance-id', APP_ID),
    event('boot-mr-done'),
    event('os-image-hash', bytes32('os image')),
    event('key-provider', KEY_PROVIDER),
    event('storage-fs', utf8('none')),
    event('system-ready'),
  ]
  const descriptor = body === undefined ? new Uint8Array() : concatBytes(u16.encode(body), u32.encode(size))
  const auth_data = Uint8Array.from({ length: 32 }, (_, at) => at)
  return { signed: concatBytes(header, descriptor, report), qe_report, auth_data, log }
}

export const DEVELOPMENT: Machine = {
  chain: developmentChain(),
  ppid: PPID,
  fmspc: FMSPC,
  components: COMPONENTS,
  pce_svn: PCE_SVN,
}

const TYPE = fromHex('01000008', 4)!
const SEPARATOR = utf8(':')

/** RTMR3 after the events. */
const replayed = (log: readonly LoggedEvent[]): Uint8Array =>
  log.reduce<Uint8Array>((register, { name, payload }) => {
    const digest = sha384(concatBytes(TYPE, SEPARATOR, name, SEPARATOR, payload))
    return sha384(concatBytes(register, digest))
  }, new Uint8Array(48))

const measuredOf = (signed: Uint8Array) => {
  const body = signed.slice(bodyOf(signed))
  const at = (place: number, width = 48): Uint8Array => body.slice(place, place + width)
  const rtmr = [at(TD.rtmr0), at(TD.rtmr1), at(TD.rtmr2), at(TD.rtmr3)] as const
  return { mr_td: at(TD.mr_td), rtmr, xfam: at(TD.xfam, 8) }
}

const payloadOf = (log: readonly LoggedEvent[], name: string): Uint8Array | undefined =>
  log.find((one) => new TextDecoder().decode(one.name) === name)?.payload

/** Replacements in an opening; functions change a copy, which is signed by the machine's keys after it. */
export type Changes = {
  /** The register follows the log. */
  log?: (log: LoggedEvent[]) => LoggedEvent[]
  /** Of the TD report. */
  body?: (report: Uint8Array) => void
  signed?: (signed: Uint8Array) => Uint8Array
  /** After its report data. */
  qe_report?: (report: Uint8Array) => void
  /** The values that report data bind. */
  bound?: Partial<Parameters<typeof epochReportData>[0]>
  /** After everything was signed. */
  fields?: Partial<OpenAttestedEpochFields>
}

/** Of quotes in general: the key that the quoting enclave made. */
const ATTESTATION = new PlatformKey('attestation')

/** A machine that opens epochs: its statements, its certificate, and the keys that sign for it. */
export class QuotingMachine {
  readonly compose_hash: Uint8Array

  constructor(
    readonly evidence = developmentEvidence(),
    readonly machine = DEVELOPMENT,
    readonly keys = { pck: PCK, root: ROOT.compressed },
  ) {
    this.compose_hash = payloadOf(evidence.log, 'compose-hash') ?? COMPOSE_HASH
  }

  /** A vault's announcements for it, with their values. */
  announced(epoch_authority: Uint8Array): [AnnouncedTopic, Uint8Array?][] {
    const { machine } = this
    const { log, signed, qe_report } = this.evidence
    const body = bodyOf(signed)
    return [
      [{ list: 'attestation_root' }, this.keys.root],
      [{ list: 'epoch_authority' }, epoch_authority],
      [{ list: 'app_id' }, payloadOf(log, 'app-id') ?? APP_ID],
      [{ list: 'key_provider' }, sha256(payloadOf(log, 'key-provider') ?? KEY_PROVIDER)],
      [{ list: 'build', id: this.compose_hash }],
      [{ list: 'image', id: imageId(measuredOf(signed)) }],
      [{ list: 'platform', id: machine.ppid }],
      [{ list: 'fmspc_minimum', id: machine.fmspc }, minimumValue(machine.components, machine.pce_svn)],
      [{ list: 'tee_tcb_minimum' }, minimumValue(signed.slice(body, body + 16), 0)],
      [{ list: 'qe_minimum' }, minimumValue(new Uint8Array(16), qe_report[QE.svn]!)],
    ]
  }

  /** The opening with a quote for it, of a venue of the resulting generation. */
  quoted(
    opening: OpeningFields,
    parties: Pick<OpenAttestedEpochFields, 'program' | 'settlement_signer' | 'authority_signer'>,
    venue: Uint8Array,
    changes: Changes = {},
  ): OpenAttestedEpochFields {
    const { evidence, machine, keys } = this
    const log = changes.log?.([...evidence.log]) ?? evidence.log
    const changed = evidence.signed.slice()
    const body = changed.subarray(bodyOf(changed))
    body.set(replayed(log), TD.rtmr3)
    const { epoch, boot_nonce } = opening
    const bound = { venue, epoch, settlement_signer: parties.settlement_signer, boot_nonce }
    body.set(epochReportData({ ...bound, ...changes.bound }), TD.report_data)
    changes.body?.(body)
    const signed = changes.signed?.(changed) ?? changed
    const { point } = ATTESTATION
    const qe_report = evidence.qe_report.slice()
    qe_report.set(sha256(concatBytes(point, evidence.auth_data)), QE.report_data)
    changes.qe_report?.(qe_report)
    return {
      ...opening,
      ...parties,
      quote_signature: ATTESTATION.sign(signed),
      parity: ATTESTATION.compressed[0]!,
      attestation_key: point,
      qe_signature: keys.pck.sign(qe_report),
      pck_key: machine.chain.key,
      qe_report,
      signed,
      auth_data: evidence.auth_data,
      log,
      ppid: machine.ppid,
      fmspc: machine.fmspc,
      image: imageId(measuredOf(evidence.signed)),
      ...changes.fields,
    }
  }
}
