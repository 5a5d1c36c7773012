/**
 * One quote, two readers: the vault program and the client's verifier judge the same bytes, altered in each place in turn and
 * signed again by the rightful keys. No machine that the chain lets open an epoch is read otherwise by clients.
 * `TACIT_EVERY_BYTE=1` alters every byte, not each seventh.
 */
import { describe, expect, test } from 'bun:test'
import { type KeyObject, sign } from 'node:crypto'
import { signedSequence } from '../../../enclave/x509'
import { CodecError } from '../../../protocol/byte_stream'
import { concatBytes, toHex, utf8 } from '../../../protocol/bytes'
import { u16, u32 } from '../../../protocol/codec'
import { pemOfDer } from '../../../protocol/pem'
import { Refused } from '../../../protocol/tacit_error'
import { readPckPlatform } from '../../../protocol/tdx/pck_extension'
import { parseQuote } from '../../../protocol/tdx/quote'
import { decodePlatform } from '../../../protocol/vault/accounts'
import {
  compressedKey,
  lowSignature,
  type OpenAttestedEpochFields,
  openAttestedEpochInstructions,
  platformOf,
} from '../../../protocol/vault/epochs'
import { platformAddress, registerPlatformInstructions } from '../../../protocol/vault/platforms'
import { readCertificate } from '../../../protocol/x509/certificate'
import { CPU_SVN, FMSPC, PCE_SVN, PPID } from '../../../sandbox/enclave/machine'
import { AttestedVault } from '../../kit/vault/attested_vault'
import type { PlatformKey } from '../../kit/vault/development_chain'
import { landed, OpenVault } from '../../kit/vault/open_vault'
import { type Changes, COMPOSE_HASH, developmentEvidence } from '../../kit/vault/quoting_machine'
import { collateralOf, makePki, outcome, quoteOf } from '../../kit/verify/development_pki'

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
/** What the client reads of it; undefined when it rejects it. */
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
