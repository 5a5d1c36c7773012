/** A vault whose epochs are attested, and quotes for it: any part of one can be another, and all is signed anew. */
import { sha384 } from '@noble/hashes/sha2.js'
import { concatBytes, fromHex, utf8 } from '../../../protocol/bytes'
import { u16, u32 } from '../../../protocol/codec'
import { sha256 } from '../../../protocol/sha256'
import { type AnnouncedTopic, announceInstruction, minimumValue } from '../../../protocol/vault/announcements'
import {
  epochReportData,
  imageId,
  type LoggedEvent,
  type OpenAttestedEpochFields,
  openAttestedEpochInstructions,
} from '../../../protocol/vault/attested_epochs'
import { decodeOpenEpoch } from '../../../protocol/vault/epochs'
import type { VaultInstruction } from '../../../protocol/vault/instruction'
import { registerPlatformInstructions } from '../../../protocol/vault/platforms'
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
import { bytes32, landed, OpenVault } from './open_vault'
import { type Failed, type Landed, testKey } from './vault_chain'

/** What a machine shows of itself. */
export type Evidence = {
  /** Header, descriptor and TD report. */
  signed: Uint8Array
  qe_report: Uint8Array
  auth_data: Uint8Array
  log: LoggedEvent[]
}
/** A machine's certificate and what it says. */
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
  ...{ ppid: PPID, fmspc: FMSPC, components: COMPONENTS, pce_svn: PCE_SVN },
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

/** What an opening has instead; functions change a copy, which is signed by the machine's keys after it. */
export type Changes = {
  /** The register follows the log. */
  log?: (log: LoggedEvent[]) => LoggedEvent[]
  /** Of the TD report. */
  body?: (report: Uint8Array) => void
  signed?: (signed: Uint8Array) => Uint8Array
  /** After its report data. */
  qe_report?: (report: Uint8Array) => void
  /** What the report data binds. */
  bound?: Partial<Parameters<typeof epochReportData>[0]>
  /** After everything was signed. */
  fields?: Partial<OpenAttestedEpochFields>
}

/** Of quotes in general: the key that the quoting enclave made. */
const ATTESTATION = new PlatformKey('attestation')

export class AttestedVault {
  readonly vault = new OpenVault()
  readonly chain = this.vault.chain
  readonly authority = this.chain.fund(testKey('epoch authority'))

  constructor(
    readonly evidence = developmentEvidence(),
    readonly machine = DEVELOPMENT,
    readonly keys = { pck: PCK, root: ROOT.compressed },
  ) {
    const { log, signed } = evidence
    const qe_svn = evidence.qe_report[QE.svn]!
    const build = payloadOf(log, 'compose-hash')
    this.announce({ list: 'attestation_root' }, keys.root)
    this.announce({ list: 'epoch_authority' }, this.authority.key)
    this.announce({ list: 'app_id' }, payloadOf(log, 'app-id') ?? APP_ID)
    this.announce({ list: 'key_provider' }, sha256(payloadOf(log, 'key-provider') ?? KEY_PROVIDER))
    this.announce({ list: 'build', id: build ?? COMPOSE_HASH })
    this.announce({ list: 'image', id: imageId(measuredOf(signed)) })
    this.announce({ list: 'platform', id: machine.ppid })
    this.announce(
      { list: 'fmspc_minimum', id: machine.fmspc },
      minimumValue(machine.components, machine.pce_svn),
    )
    const body = bodyOf(signed)
    this.announce({ list: 'tee_tcb_minimum' }, minimumValue(signed.slice(body, body + 16), 0))
    this.announce({ list: 'qe_minimum' }, minimumValue(new Uint8Array(16), qe_svn))
    landed(this.register(machine.chain))
  }

  announce(
    topic: AnnouncedTopic,
    value?: Uint8Array,
    action: 'announce' | 'revoke' | 'raise' = 'announce',
  ): void {
    const { program, admin } = this.vault
    const keys = { program, admin: admin.key, payer: this.chain.payer.key }
    const valued = value === undefined ? {} : { value }
    const act = action === 'revoke' ? { action } : { action, ...valued }
    landed(this.chain.send(announceInstruction({ ...keys, ...topic, ...act })))
  }

  register(chain: Chain): Landed | Failed {
    const fields = { ...chain, program: this.vault.program, payer: this.chain.payer.key }
    return this.together(...registerPlatformInstructions(fields))
  }

  together(before: VaultInstruction, last: VaultInstruction): Landed | Failed {
    this.chain.before = [before]
    const result = this.chain.send(last)
    this.chain.before = []
    return result
  }

  /** The settlement key of the boot that seeks the next epoch. */
  get settlement() {
    return this.chain.fund(testKey(`settlement ${this.chain.config().epoch + 1}`))
  }

  /** The fields of the opening that lands now, with some parts replaced. */
  fields(changes: Changes = {}): OpenAttestedEpochFields {
    const { machine, evidence, keys } = this
    const settlement_signer = this.settlement.key
    const opening = decodeOpenEpoch(this.vault.opening().data)!
    const log = changes.log?.([...evidence.log]) ?? evidence.log
    const compose_hash = payloadOf(evidence.log, 'compose-hash') ?? COMPOSE_HASH
    const changed = evidence.signed.slice()
    const body = changed.subarray(bodyOf(changed))
    const { venue } = this.chain.config()
    body.set(replayed(log), TD.rtmr3)
    const bound = { venue, epoch: opening.epoch, settlement_signer, boot_nonce: opening.boot_nonce }
    body.set(epochReportData({ ...bound, ...changes.bound }), TD.report_data)
    changes.body?.(body)
    const signed = changes.signed?.(changed) ?? changed
    const { point } = ATTESTATION
    const qe_report = evidence.qe_report.slice()
    qe_report.set(sha256(concatBytes(point, evidence.auth_data)), QE.report_data)
    changes.qe_report?.(qe_report)
    return {
      ...opening,
      compose_hash,
      program: this.vault.program,
      settlement_signer,
      authority_signer: this.authority.key,
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

  opening(changes?: Changes): [VaultInstruction, VaultInstruction] {
    return openAttestedEpochInstructions(this.fields(changes))
  }

  open(changes?: Changes): Landed | Failed {
    return this.together(...this.opening(changes))
  }

  /** Simulated, so that one vault serves many cases. */
  outcome(changes?: Changes): string {
    const [verify, opening] = this.opening(changes)
    this.chain.before = [verify]
    const outcome = this.chain.outcome(opening)
    this.chain.before = []
    return outcome
  }
}
