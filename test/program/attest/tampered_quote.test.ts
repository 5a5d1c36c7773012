/** Each part of a quote, altered and signed again, meets its own error; the program and the client's verifier agree on each. */

import { describe, expect, test } from 'bun:test'
import { type KeyObject, sign } from 'node:crypto'
import { signedSequence } from '../../../enclave/x509'
import { CodecError } from '../../../protocol/byte_stream'
import { concatBytes, toHex, utf8 } from '../../../protocol/bytes'
import { u16, u32 } from '../../../protocol/codec'
import { Refused } from '../../../protocol/tacit_error'
import { readPckPlatform } from '../../../protocol/tdx/collateral'
import { parseQuote } from '../../../protocol/tdx/quote'
import { decodePlatform } from '../../../protocol/vault/accounts'
import {
  compressedKey,
  lowSignature,
  type OpenAttestedEpochFields,
  openAttestedEpochInstructions,
  platformAddress,
  platformOf,
  registerPlatformInstructions,
} from '../../../protocol/vault/epochs'
import { pemOfDer, readCertificate } from '../../../protocol/x509/certificate'
import { CPU_SVN, FMSPC, PCE_SVN, PPID } from '../../../sandbox/enclave/machine'
import type { PlatformKey } from '../../kit/vault/development_chain'
import { AttestedVault, bytes32, landed, OpenVault } from '../../kit/vault/open_vault'
import {
  type Changes,
  COMPOSE_HASH,
  developmentEvidence,
  event,
  QE,
  TD,
} from '../../kit/vault/quoting_machine'
import { collateralOf, makePki, outcome, quoteOf } from '../../kit/verify/development_pki'

const flipBody = (at: number): Changes => ({ body: (body) => body.set([body[at]! ^ 1], at) })
const flipHeader = (at: number): Changes => ({
  signed: (signed) => signed.map((byte, index) => (index === at ? byte ^ 1 : byte)),
})
const flipReport = (at: number): Changes => ({ qe_report: (report) => report.set([report[at]! ^ 1], at) })
const setBody = (at: number, byte: number): Changes => ({ body: (body) => body.set([byte], at) })
const setReport = (at: number, byte: number): Changes => ({ qe_report: (report) => report.set([byte], at) })
const BODY = {
  mr_seam: TD.mr_seam,
  mr_owner: 232,
  mr_owner_config: 280,
}

type Row = [changed: string, changes: Changes, outcome: string]

/** Each is signed again by the keys of the machine, so that only its own check rejects it. */
const TAMPERED: Row[] = [
  ['nothing', {}, 'landed'],
  ['version', flipHeader(1), 'unsupported_quote'],
  ['version 3', { signed: (signed) => signed.with(0, 3) }, 'unsupported_quote'],
  ['key type', flipHeader(2), 'wrong_key_type'],
  ['TEE', flipHeader(4), 'wrong_tee'],
  ['TEE, last byte', flipHeader(7), 'wrong_tee'],
  ['reserved header bytes', flipHeader(8), 'reserved_not_zero'],
  ['reserved header bytes, last', flipHeader(11), 'reserved_not_zero'],
  ['vendor', flipHeader(12), 'wrong_vendor'],
  ['vendor, last byte', flipHeader(27), 'wrong_vendor'],
  ['user data, which names the enclave’s instance', flipHeader(28), 'landed'],
  ['a longer body', { signed: (signed) => concatBytes(signed, Uint8Array.of(0)) }, 'wrong_body'],
  ['a shorter body', { signed: (signed) => signed.slice(0, -1) }, 'wrong_body'],
  ['no body', { signed: (signed) => signed.slice(0, 48) }, 'wrong_body'],
  ['the module’s version', setBody(TD.tee_tcb_svn, 5), 'tee_tcb_below_minimum'],
  ['the module’s version, higher', setBody(TD.tee_tcb_svn, 7), 'landed'],
  ['the module’s major version, higher', setBody(TD.tee_tcb_svn + 1, 2), 'wrong_module_version'],
  ['the module’s major version, lower', setBody(TD.tee_tcb_svn + 1, 0), 'wrong_module_version'],
  ['the microcode’s version', setBody(TD.tee_tcb_svn + 2, 2), 'tee_tcb_below_minimum'],
  ['MRSEAM, which follows the module’s version', flipBody(BODY.mr_seam), 'landed'],
  ['MRSIGNERSEAM', flipBody(TD.mr_signer_seam), 'wrong_seam_signer'],
  ['MRSIGNERSEAM, last byte', flipBody(TD.mr_signer_seam + 47), 'wrong_seam_signer'],
  ['SEAM attributes', flipBody(TD.seam_attributes), 'wrong_seam_attributes'],
  ['SEAM attributes, last byte', flipBody(TD.seam_attributes + 7), 'wrong_seam_attributes'],
  ['DEBUG', flipBody(TD.td_attributes), 'wrong_td_attributes'],
  ['MIGRATABLE', setBody(TD.td_attributes + 3, 0x30), 'wrong_td_attributes'],
  ['no SEPT_VE_DISABLE', setBody(TD.td_attributes + 3, 0), 'wrong_td_attributes'],
  ['PERFMON', setBody(TD.td_attributes + 7, 0x80), 'wrong_td_attributes'],
  ['XFAM', flipBody(TD.xfam), 'wrong_image'],
  ['MRTD', flipBody(TD.mr_td), 'wrong_image'],
  ['MRCONFIGID', flipBody(TD.mr_config_id + 1), 'wrong_config_id'],
  ['MRCONFIGID, a byte behind the hash', flipBody(TD.mr_config_id + 33), 'wrong_config_id'],
  ['MRCONFIGID, not set', { body: (body) => void body.fill(0, 184, 232) }, 'landed'],
  ['MROWNER, which is the host’s', flipBody(BODY.mr_owner), 'landed'],
  ['MROWNERCONFIG, which is the host’s', flipBody(BODY.mr_owner_config), 'landed'],
  ['RTMR0', flipBody(TD.rtmr0), 'wrong_image'],
  ['RTMR1', flipBody(TD.rtmr1), 'wrong_image'],
  ['RTMR2', flipBody(TD.rtmr2), 'wrong_image'],
  ['RTMR2, last byte', flipBody(TD.rtmr2 + 47), 'wrong_image'],
  ['RTMR3', flipBody(TD.rtmr3), 'wrong_register'],
  ['RTMR3, last byte', flipBody(TD.rtmr3 + 47), 'wrong_register'],
  ['report data', flipBody(TD.report_data), 'wrong_report_data'],
  ['report data, purpose', flipBody(TD.report_data + 32), 'wrong_report_data'],
  ['report data, last byte', flipBody(TD.report_data + 63), 'wrong_report_data'],
  ['the quoting enclave’s MISCSELECT', flipReport(QE.misc_select), 'wrong_qe_misc_select'],
  ['DEBUG of the quoting enclave', setReport(QE.attributes, 0x13), 'wrong_qe_attributes'],
  ['another attribute', setReport(QE.attributes, 0x91), 'wrong_qe_attributes'],
  ['another attribute, last byte', flipReport(QE.attributes + 7), 'wrong_qe_attributes'],
  ['the attribute that may differ', setReport(QE.attributes, 0x11), 'landed'],
  ['the quoting enclave’s signer', flipReport(QE.mr_signer), 'wrong_qe_signer'],
  ['the quoting enclave’s product', setReport(QE.product, 1), 'wrong_qe_product'],
  ['the quoting enclave’s version', setReport(QE.svn, 3), 'qe_below_minimum'],
  ['the quoting enclave’s version, higher', setReport(QE.svn, 5), 'landed'],
  ['its report data', flipReport(QE.report_data), 'wrong_attestation_key'],
  ['its report data, second half', flipReport(QE.report_data + 63), 'wrong_attestation_key'],
  ['auth data', { fields: { auth_data: new Uint8Array(32) } }, 'wrong_attestation_key'],
  ['no auth data', { fields: { auth_data: new Uint8Array() } }, 'wrong_attestation_key'],
  ['the platform’s record', { fields: { ppid: bytes32('other').slice(0, 16) } }, 'wrong_owner'],
]

const at = (name: string, payload?: Uint8Array) => event(name, payload)
const without = (name: string) => (log: { name: Uint8Array; payload: Uint8Array }[]) =>
  log.filter((one) => new TextDecoder().decode(one.name) !== name)
const [COMPOSE_AT, READY_AT] = [2, 8]

/** The register follows each of them, so that only the rules of the log refuse it. */
const LOGS: Row[] = [
  ['an event behind the start', { log: (log) => [...log, at('application', utf8('anything'))] }, 'landed'],
  ['no events', { log: () => [] }, 'missing_event'],
  ...['compose-hash', 'app-id', 'key-provider', 'system-ready'].flatMap((name): Row[] => [
    [`no ${name}`, { log: without(name) }, 'missing_event'],
    [
      `${name} twice`,
      { log: (log) => [at(name, bytes32('x')), ...log] },
      name === 'system-ready' ? 'late_event' : 'repeated_event',
    ],
    [`${name} again behind the start`, { log: (log) => [...log, at(name, COMPOSE_HASH)] }, 'repeated_event'],
  ]),
  [
    'compose-hash behind the start',
    { log: (log) => [...log.toSpliced(COMPOSE_AT, 1), log[COMPOSE_AT]!] },
    'late_event',
  ],
  [
    'a compose hash of 31 bytes',
    { log: (log) => log.with(COMPOSE_AT, at('compose-hash', COMPOSE_HASH.slice(1))) },
    'invalid_event',
  ],
  ['an app id of 21 bytes', { log: (log) => log.with(1, at('app-id', new Uint8Array(21))) }, 'invalid_event'],
  [
    'a start with a payload',
    { log: (log) => log.with(READY_AT, at('system-ready', utf8('x'))) },
    'invalid_event',
  ],
  [
    'another compose hash',
    { log: (log) => log.with(COMPOSE_AT, at('compose-hash', bytes32('x'))) },
    'wrong_build',
  ],
  ['another app id', { log: (log) => log.with(1, at('app-id', bytes32('x').slice(0, 20))) }, 'wrong_app_id'],
  [
    'another key provider',
    { log: (log) => log.with(6, at('key-provider', utf8('x'))) },
    'wrong_key_provider',
  ],
  ['a name without bytes', { log: (log) => [at('', utf8('x')), ...log] }, 'invalid_event'],
  ['a payload of 1,025 bytes', { log: (log) => [...log, at('x', new Uint8Array(1_025))] }, 'invalid_event'],
  ['a separator in a name', { log: (log) => [at('a:b'), ...log] }, 'separator_in_event'],
  [
    'a separator that moved: a claim under another name with the same digest',
    {
      log: (log) => {
        const { payload } = log[COMPOSE_AT]!
        const hidden = {
          name: concatBytes(utf8('compose-hash:'), payload.slice(0, 4)),
          payload: payload.slice(5),
        }
        return log.with(COMPOSE_AT, hidden).toSpliced(3, 0, at('compose-hash', COMPOSE_HASH))
      },
    },
    'separator_in_event',
  ],
  [
    'events in another order than the register saw',
    { fields: { log: [...developmentEvidence().log].reverse() } },
    'late_event',
  ],
  [
    'an event withheld',
    { fields: { log: without('storage-fs')(developmentEvidence().log) } },
    'wrong_register',
  ],
]

describe('an opening with another', () => {
  const own = new AttestedVault()
  for (const [name, changes, outcome] of [...TAMPERED, ...LOGS])
    test(`${name} ${outcome === 'landed' ? 'opens' : 'is refused by its own error'}`, () =>
      expect(own.outcome(changes)).toBe(outcome))
})

test('the fields of version 5 that version 4 has not', () => {
  const td_10 = new AttestedVault(developmentEvidence(2))
  const set = (at: number, byte: number): Changes => ({ signed: (signed) => signed.with(at, byte) })
  expect(td_10.outcome(set(48, 1))).toBe('wrong_body')
  expect(td_10.outcome(set(48, 3))).toBe('wrong_body')
  expect(td_10.outcome(set(49, 1))).toBe('wrong_body')
  expect(td_10.outcome(set(50, 0x49))).toBe('wrong_body')
  expect(td_10.outcome(set(53, 1))).toBe('wrong_body')
  expect(td_10.outcome(set(0, 4))).toBe('wrong_body')
  const td_15 = new AttestedVault(developmentEvidence(3))
  expect(td_15.outcome(flipBody(TD.mr_service_td))).toBe('service_td_bound')
  expect(td_15.outcome(flipBody(TD.mr_service_td + 47))).toBe('service_td_bound')
  expect(td_15.outcome(setBody(TD.tee_tcb_svn_2, 5))).toBe('tee_tcb_below_minimum')
  expect(td_15.outcome(setBody(TD.tee_tcb_svn_2 + 1, 2))).toBe('wrong_module_version')
  expect(td_15.outcome(setBody(TD.tee_tcb_svn_2, 7))).toBe('landed')
  expect(td_15.outcome(set(48, 2))).toBe('wrong_body')
})

/**
 * One quote, two readers: the vault program and the client's verifier judge the same bytes, altered in each place in turn and
 * signed again by the rightful keys. No machine that the chain lets open an epoch is read otherwise by clients.
 * `TACIT_EVERY_BYTE=1` alters every byte, not each seventh.
 */

const EVERY = process.env['TACIT_EVERY_BYTE'] === '1' ? 1 : 7
const pki = makePki()
const collateral = collateralOf(pki)
const { pck, platform_authority, root } = pki.authorities
const CERTIFICATES = [pck, platform_authority, root]

/** r ‖ s. */
const rawSignature = (message: Uint8Array, key: KeyObject): Uint8Array =>
  sign('sha256', message, { key, dsaEncoding: 'ieee-p1363' })

/** A vault that admits a machine whose certificates the client accepts too. `body`: type of a version 5 quote. */
function vaultOf(body?: 2 | 3): AttestedVault {
  const { signed, qe_report_bytes, qe_auth_data } = parseQuote(quoteOf(pki, { compose_hash: COMPOSE_HASH }))
  const td_15 = body === 3 ? concatBytes(signed.slice(48, 64), new Uint8Array(48)) : new Uint8Array()
  const version_5 = () => {
    const descriptor = concatBytes(u16.encode(body!), u32.encode(584 + td_15.length))
    return concatBytes(signed.slice(0, 48).with(0, 5), descriptor, signed.slice(48), td_15)
  }
  const evidence = {
    signed: body === undefined ? signed : version_5(),
    qe_report: qe_report_bytes,
    auth_data: qe_auth_data,
    log: developmentEvidence().log,
  }
  const machine = {
    chain: platformOf(CERTIFICATES),
    ppid: PPID,
    fmspc: FMSPC,
    components: Uint8Array.from(CPU_SVN),
    pce_svn: PCE_SVN,
  }
  const keys = {
    pck: {
      sign: (message: Uint8Array) => lowSignature(rawSignature(message, pki.keys.pck)),
    } as PlatformKey,
    root: compressedKey(readCertificate(root).public_key),
  }
  return new AttestedVault(evidence, machine, keys)
}

/** The quote of which an opening takes its fields. */
function quoteWith(fields: OpenAttestedEpochFields): Uint8Array {
  const { signed, quote_signature, attestation_key, qe_report, qe_signature, auth_data } = fields
  const pem = utf8(`${CERTIFICATES.map((der) => pemOfDer(der, 'CERTIFICATE')).join('')}\0`)
  const chain = concatBytes(
    u16.encode(auth_data.length),
    auth_data,
    u16.encode(5),
    u32.encode(pem.length),
    pem,
  )
  const certification = concatBytes(qe_report, qe_signature, chain)
  const certified = concatBytes(u16.encode(6), u32.encode(certification.length), certification)
  const data = concatBytes(quote_signature, attestation_key, certified)
  return concatBytes(signed, u32.encode(data.length), data)
}

type Verdicts = { program: string; client: string }
async function judge(own: AttestedVault, changes: Changes): Promise<Verdicts> {
  const fields = own.fields(changes)
  const program = own.chain.outcome(openAttestedEpochInstructions(fields))
  return { program, client: await outcome(pki, quoteWith(fields), collateral) }
}

const flipped = (bytes: Uint8Array, at: number): Uint8Array => bytes.with(at, bytes[at]! ^ (1 << (at % 8)))

/** Of the quoting enclave's report the client refuses reserved bytes, which the signer, Intel's enclave, leaves zero. */
const isReserved = (at: number): boolean =>
  (at >= 20 && at < 48) || (at >= 96 && at < 128) || (at >= 160 && at < 256) || (at >= 260 && at < 320)

/** Of the report's own register values, minima and binding the quote's verifier judges nothing: other checks of the client do. */
const OTHER_CHECKS = [
  ...['wrong_image', 'wrong_register', 'wrong_config_id', 'wrong_report_data'],
  ...['tee_tcb_below_minimum', 'wrong_module_version', 'qe_below_minimum'],
]

describe.each([undefined, 2, 3] as const)('body type %p', (body) => {
  test('the untouched quote opens and verifies', async () => {
    expect(await judge(vaultOf(body), {})).toEqual({ program: 'landed', client: 'accepted' })
  }, 120_000)

  test('no altered place of the signed part opens for one reader alone', async () => {
    const own = vaultOf(body)
    const { length } = own.fields().signed
    const apart: unknown[] = []
    const opened: number[] = []
    for (let at = 0; at < length; at += EVERY) {
      const { program, client } = await judge(own, { signed: (signed) => flipped(signed, at) })
      if (program === 'landed') opened.push(at)
      const agree = (program === 'landed') === (client === 'accepted')
      if (!agree && !OTHER_CHECKS.includes(program)) apart.push({ at, program, client })
    }
    expect(apart).toEqual([])
    expect(opened.length).toBeGreaterThan(10)
  }, 120_000)
})

test('no altered place of the quoting enclave’s report opens for the program alone', async () => {
  const own = vaultOf()
  const apart: unknown[] = []
  for (let at = 0; at < 384; at += EVERY) {
    const { program, client } = await judge(own, { qe_report: (report) => report.set(flipped(report, at)) })
    const agree = (program === 'landed') === (client === 'accepted')
    const known = OTHER_CHECKS.includes(program) || (program === 'landed' && isReserved(at))
    if (!agree && !known) apart.push({ at, program, client })
  }
  expect(apart).toEqual([])
}, 120_000)

/** A PCK certificate as its authority would sign it, of this signed part. */
const certificateOf = (signed: Uint8Array) => {
  return signedSequence(signed, pki.keys.platform_authority)
}
/** The client's reading of it; undefined when it rejects it. */
function readByClient(certificate: Uint8Array) {
  try {
    const read = readCertificate(certificate)
    const { ppid, fmspc, cpu_svn, pce_svn } = readPckPlatform(read)
    return {
      key: read.public_key,
      facts: [toHex(ppid), toHex(fmspc), toHex(Uint8Array.from(cpu_svn)), pce_svn],
    }
  } catch (error) {
    if (error instanceof Refused || error instanceof CodecError) return undefined
    throw error
  }
}

/** Of serial, names and dates, which come before the key, the program reads roles alone: dates and forms are the client's check. */
test('a certificate that both readers take says the same to both, and the client rejects no other for its key or versions', () => {
  const original = readCertificate(pck)
  const chain = platformOf(CERTIFICATES)
  const key_at = Buffer.from(original.signed).indexOf(original.public_key)
  const own = rooted(chain.root_key)
  const apart: unknown[] = []
  let taken = 0
  for (let at = 0; at < original.signed.length; at += EVERY) {
    const leaf = flipped(original.signed, at)
    const certificate = certificateOf(leaf)
    const client = readByClient(certificate)
    const key = client === undefined ? chain.key : compressedKey(client.key)
    const leaf_signature = lowSignature(rawSignature(leaf, pki.keys.platform_authority))
    const changed = { ...chain, key, leaf, leaf_signature }
    const { program, chain: svm } = own
    const sent = registerPlatformInstructions({ ...changed, program, payer: svm.payer.key })
    if (svm.outcome(sent) !== 'landed') continue
    taken++
    const fresh = rooted(chain.root_key)
    landed(fresh.registerPlatform(changed))
    const record = decodePlatform(fresh.chain.account(platformAddress(fresh.program, key))!.data)!
    const { ppid, fmspc, components, pce_svn } = record
    const facts = [toHex(ppid), toHex(fmspc), toHex(components), pce_svn]
    const is_taken = client !== undefined || at < key_at
    if (!is_taken || (client !== undefined && !Bun.deepEquals(client.facts, facts)))
      apart.push({ at, client, facts })
  }
  expect(apart).toEqual([])
  expect(taken).toBeGreaterThan(5)
}, 120_000)

function rooted(root_key: Uint8Array): OpenVault {
  const vault = new OpenVault()
  vault.announce({ list: 'attestation_root' }, root_key)
  return vault
}
