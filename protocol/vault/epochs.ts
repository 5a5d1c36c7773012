/**
 * Builds `open_attested_epoch` (25), an epoch whose settlement key a TDX quote binds to an announced build on a listed machine, and
 * `anchor` (5) of a running instance. The program itself verifies the quote; all data lies in its instruction, as in
 * `register_platform`.
 */
import { concatBytes, fromHex, toHex, utf8 } from '../bytes'
import { bool, codec, fixed, sized, struct, u8, u16, uint, type ValueOf, zeros } from '../codec'
import { sha256 } from '../sha256'
import { readPckPlatform } from '../tdx/collateral'
import { parseEventLog } from '../tdx/event_log'
import type { Quote } from '../tdx/quote'
import { type Certificate, readCertificate } from '../x509/certificate'
import { address, findAddress, SYSTEM_PROGRAM, vaultAddresses } from './addresses'
import { type AnnouncedTopic, announcementAddress } from './admin'
import { builderOf, type Forms, listAccounts, numberOf, type VaultInstruction } from './instruction'

/**
 * Builds `register_platform` (24): the vault program itself verifies a machine's PCK certificate. All data lies in the vault's
 * instruction; the `secp256r1` precompile before it is only the 30 bytes of offsets that point there.
 */

export const SECP256R1_PRECOMPILE = address('Secp256r1SigVerify1111111111111111111111111')
export const INSTRUCTIONS_SYSVAR = address('Sysvar1nstructions1111111111111111111111111')

/** Bytes of a compressed P-256 key: parity, x. */
const KEY_BYTES = 33
const SIGNATURE_BYTES = 64
/** Record of the root that certifies the authority. */
const ROOT: AnnouncedTopic = { list: 'attestation_root' }

/** Seeds of a platform's record. `key`: compressed PCK key. */
const platformSeeds = (key: Uint8Array): readonly Uint8Array[] => [utf8('platform'), key.slice(1)]

/** Address of the record of the platform whose compressed PCK key this is. */
export const platformAddress = (program: Uint8Array, key: Uint8Array): Uint8Array =>
  findAddress(platformSeeds(key), program).address

/** 197 bytes before the two signed parts. Signatures are r ‖ s with low s. */
const REGISTER_PLATFORM = struct({
  instruction: numberOf('register_platform'),
  leaf_signature: fixed(SIGNATURE_BYTES),
  authority_key: fixed(KEY_BYTES),
  authority_signature: fixed(SIGNATURE_BYTES),
  root_key: fixed(KEY_BYTES),
  /** Signed part of the PCK certificate, DER. */
  leaf: sized(u16),
  /** Signed part of its authority's certificate, DER. */
  authority: sized(u16),
})

const REGISTER_PLATFORM_ACCOUNTS = {
  payer: 'sw',
  config: '',
  attestation_root: '',
  platform: 'w',
  instructions_sysvar: '',
  system_program: '',
  program: '',
} as const

/** Facts of a platform's certificate, in the event of its registration and behind the head of its record. */
const VERSIONS = { ppid: fixed(16), fmspc: fixed(6), components: fixed(16), pce_svn: u16 } as const
export const PLATFORM_REGISTERED = struct({ key: fixed(KEY_BYTES), ...VERSIONS })

/** 112 bytes behind 3 of the head. The keys are x; their parities are apart. */
export const PLATFORM_FIELDS = {
  parity: u8,
  root_parity: u8,
  zero: zeros(1),
  pce_svn: u16,
  key: fixed(32),
  root: fixed(32),
  ppid: fixed(16),
  components: fixed(16),
  fmspc: fixed(6),
  reserved: zeros(2),
} as const

export type RegisterPlatformFields = Omit<ValueOf<typeof REGISTER_PLATFORM>, 'instruction'> & {
  program: Uint8Array
  payer: Uint8Array
  /** Compressed key in the PCK certificate. */
  key: Uint8Array
}

/** A signature that the precompile verifies: places in the data of the instruction behind it. */
type Signed = { signature: number; key: number; message: number; length: number }

const OFFSETS = struct({
  signature: u16,
  signature_at: u16,
  key: u16,
  key_at: u16,
  message: u16,
  length: u16,
  message_at: u16,
})

/** The precompile's instruction whose offsets point into the instruction at `index` of the transaction. */
export function verifying(signed: readonly Signed[], index: number): VaultInstruction {
  const at = { signature_at: index, key_at: index, message_at: index }
  const offsets = signed.map((one) => OFFSETS.encode({ ...one, ...at }))
  const data = concatBytes(Uint8Array.of(signed.length, 0), ...offsets)
  return { program: SECP256R1_PRECOMPILE, accounts: [], data }
}

/**
 * Both instructions of one v1 transaction, in order. `first`: index of the first one in it.
 * @throws RangeError when a key or signature has another length
 */
export function registerPlatformInstructions(
  fields: RegisterPlatformFields,
  first = 0,
): [VaultInstruction, VaultInstruction] {
  const { program, payer, key, leaf, authority } = fields
  const accounts = listAccounts(REGISTER_PLATFORM_ACCOUNTS, {
    payer,
    program,
    system_program: SYSTEM_PROGRAM,
    instructions_sysvar: INSTRUCTIONS_SYSVAR,
    config: vaultAddresses(program).config,
    attestation_root: announcementAddress(program, ROOT),
    platform: platformAddress(program, key),
  })
  const at = REGISTER_PLATFORM.offsetOf
  const message = at('leaf') + 2
  const signed = [
    { signature: at('leaf_signature'), key: at('authority_key'), message, length: leaf.length },
    {
      signature: at('authority_signature'),
      key: at('root_key'),
      message: message + leaf.length + 2,
      length: authority.length,
    },
  ]
  const data = REGISTER_PLATFORM.encode(fields)
  return [verifying(signed, first + 1), { program, accounts, data }]
}

export const PLATFORM_FORMS = {
  register_platform: { data: REGISTER_PLATFORM, accounts: REGISTER_PLATFORM_ACCOUNTS },
} satisfies Forms

/** Statements about venue and journal in every opening, 217 bytes. */
const OPENING_FIELDS = {
  /** The epoch after this instruction: the config's plus one. */
  epoch: uint,
  /** Not zero. */
  boot_nonce: fixed(16),
  compose_hash: fixed(32),
  /** Without `restore` not before the position on chain, and of equal head at equal seq. */
  journal_seq: uint,
  journal_head: fixed(32),
  /** The config's `journal_head`, by which the instance judged its journal; zeros before the first position. */
  expected_head: fixed(32),
  /** True consumes an effective `authorize_restore`, raises the generation and accepts any journal position. */
  restore: bool,
  /** The config's generation, plus one with `restore`. */
  generation: uint,
  /** The config's. */
  last_batch: uint,
  /** The tree account's. */
  spent_root: fixed(32),
  /** A known state of the note tree with at least the config's `settled_leaf_count` leaves. */
  cited_leaf_count: uint,
  cited_root: fixed(32),
} as const

/** `anchor` stores a newer journal position and ignores an older one. 65 bytes. */
const ANCHOR = struct({
  instruction: numberOf('anchor'),
  epoch: uint,
  journal_seq: uint,
  journal_head: fixed(32),
  /**
   * Latest slot and chain second (unix) at which the anchor lands and stores its position as the commit; both 0 for an
   * anchor without commit.
   */
  not_after_slot: uint,
  not_after_s: uint,
})

export const EPOCH_FORMS = {
  anchor: { data: ANCHOR, accounts: { settlement_signer: 's', config: 'w' } },
} satisfies Forms

export const anchorInstruction = builderOf(EPOCH_FORMS.anchor)

const QE_REPORT_BYTES = 384

/** An event of register 3 as its digest covers it; hashed as a runtime event of version 1. */
const LOGGED_EVENT = struct({ name: sized(u8), payload: sized(u16) })
export type LoggedEvent = ValueOf<typeof LOGGED_EVENT>

/** Events to the end of the data. */
const LOG = codec<LoggedEvent[]>(
  undefined,
  (to, events) => {
    for (const one of events) LOGGED_EVENT.write(to, one)
  },
  (from) => {
    const events: LoggedEvent[] = []
    while (from.left > 0) events.push(LOGGED_EVENT.read(from))
    return events
  },
)

/** 613 bytes before the signed part of the quote, whose length decides where the rest lies. Signatures are r ‖ s with low s. */
const OPEN_ATTESTED_EPOCH = struct({
  instruction: numberOf('open_attested_epoch'),
  quote_signature: fixed(SIGNATURE_BYTES),
  /** First byte of the compressed attestation key: with the next 32 bytes it is the key that the precompile reads. */
  parity: u8,
  /** x ‖ y. */
  attestation_key: fixed(64),
  qe_signature: fixed(SIGNATURE_BYTES),
  /** Compressed. */
  pck_key: fixed(KEY_BYTES),
  qe_report: fixed(QE_REPORT_BYTES),
  /** Header, descriptor (version 5) and TD report: 632, 638 or 702 bytes. */
  signed: sized(u16),
  auth_data: sized(u8),
  ...OPENING_FIELDS,
  log: LOG,
})
type OpenAttestedEpoch = ValueOf<typeof OPEN_ATTESTED_EPOCH>

/** Statements of an opening about venue and journal. */
export type OpeningFields = { [K in keyof typeof OPENING_FIELDS]: OpenAttestedEpoch[K] }

const OPEN_ATTESTED_EPOCH_ACCOUNTS = {
  settlement_signer: 's',
  authority_signer: 's',
  config: 'w',
  tree: '',
  ring: '',
  epoch_authority: '',
  attestation_root: '',
  platform: '',
  machine: '',
  fmspc_minimum: '',
  tee_tcb_minimum: '',
  qe_minimum: '',
  image: '',
  build: '',
  app_id: '',
  key_provider: '',
  instructions_sysvar: '',
  program: '',
} as const

export type OpenAttestedEpochFields = Omit<OpenAttestedEpoch, 'instruction'> & {
  program: Uint8Array
  /** The new settlement key, which the quote binds. */
  settlement_signer: Uint8Array
  /** The announced epoch authority. */
  authority_signer: Uint8Array
  /** Of the certificate of `pck_key`. */
  ppid: Uint8Array
  fmspc: Uint8Array
  /** Of the quote: `imageId`. */
  image: Uint8Array
}

type Measured = {
  mr_td: Uint8Array
  rtmr: readonly [Uint8Array, Uint8Array, Uint8Array, Uint8Array]
  xfam: Uint8Array
}

/** Id of an announced image: a TD report's measurements of firmware, kernel, memory and processors. */
export const imageId = ({ mr_td, rtmr, xfam }: Measured): Uint8Array =>
  sha256(concatBytes(mr_td, rtmr[0], rtmr[1], rtmr[2], xfam))

const PURPOSE = utf8('tacit/epoch/v1')
const BOUND = struct({ venue: fixed(32), epoch: uint, settlement_signer: fixed(32), boot_nonce: fixed(16) })
export type EpochBound = ValueOf<typeof BOUND>

/**
 * The 64 bytes that a quote for an epoch carries. The second half distinguishes it from an attestation's, which is a hash, and from evidence's,
 * which is zeros. `venue`: id of the resulting generation.
 */
export function epochReportData(bound: EpochBound): Uint8Array {
  const data = new Uint8Array(64)
  data.set(sha256(BOUND.encode(bound)))
  data.set(PURPOSE, 32)
  return data
}

/**
 * Both instructions of one v1 transaction, in order. `first`: index of the first one in it.
 * @throws RangeError when a field has another width
 */
export function openAttestedEpochInstructions(
  fields: OpenAttestedEpochFields,
  first = 0,
): [VaultInstruction, VaultInstruction] {
  const { program } = fields
  const at = (topic: AnnouncedTopic): Uint8Array => announcementAddress(program, topic)
  const accounts = listAccounts(OPEN_ATTESTED_EPOCH_ACCOUNTS, {
    ...vaultAddresses(program),
    settlement_signer: fields.settlement_signer,
    authority_signer: fields.authority_signer,
    epoch_authority: at({ list: 'epoch_authority' }),
    attestation_root: at({ list: 'attestation_root' }),
    platform: platformAddress(program, fields.pck_key),
    machine: at({ list: 'platform', id: fields.ppid }),
    fmspc_minimum: at({ list: 'fmspc_minimum', id: fields.fmspc }),
    tee_tcb_minimum: at({ list: 'tee_tcb_minimum' }),
    qe_minimum: at({ list: 'qe_minimum' }),
    image: at({ list: 'image', id: fields.image }),
    build: at({ list: 'build', id: fields.compose_hash }),
    app_id: at({ list: 'app_id' }),
    key_provider: at({ list: 'key_provider' }),
    instructions_sysvar: INSTRUCTIONS_SYSVAR,
  })
  const place = OPEN_ATTESTED_EPOCH.offsetOf
  const [qe_message, message] = [place('qe_report'), place('signed') + 2]
  const signed = [
    { signature: place('quote_signature'), key: place('parity'), message, length: fields.signed.length },
    { signature: place('qe_signature'), key: place('pck_key'), message: qe_message, length: QE_REPORT_BYTES },
  ]
  const data = OPEN_ATTESTED_EPOCH.encode(fields)
  return [verifying(signed, first + 1), { program, accounts, data }]
}

/** The event of an attested opening, emitted with `epoch_opened`. */
export const EPOCH_ATTESTED = struct({
  epoch: uint,
  settlement_signer: fixed(32),
  /** SHA-256 of the quote's signed part. */
  quote_hash: fixed(32),
  /** Compressed. */
  pck_key: fixed(KEY_BYTES),
})

export const ATTESTED_EPOCH_FORMS = {
  open_attested_epoch: { data: OPEN_ATTESTED_EPOCH, accounts: OPEN_ATTESTED_EPOCH_ACCOUNTS },
} satisfies Forms

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

/** The fields of a quote that an opening uses, its signatures with the low s. */
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

/** The inputs of an opening from a quote and its event log. @throws Refused when certificate or log is malformed */
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
