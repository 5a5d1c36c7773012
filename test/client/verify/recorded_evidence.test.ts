/** Evidence in which one thing is false and everything else holds: exactly the check for it rejects. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { VerificationFailed } from '../../../client/verified_venue'
import type { ChainRecord, EvidenceBundle } from '../../../client/verify/evidence_bundle'
import { judgeEvidence } from '../../../client/verify/judge_evidence'
import type { VerificationPolicy } from '../../../client/verify/policy'
import { generateTls } from '../../../enclave/x509'
import { encodeBase58 } from '../../../protocol/base58'
import {
  BINDING_BODY,
  type BindingBody,
  encodeLocation,
  STATEMENT_BODY,
  type StatementBody,
} from '../../../protocol/bodies/statements'
import { fromAnyHex, toHex, utf8 } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import { publicKeyOf, sign } from '../../../protocol/sign'
import { evidenceReportData, parseQuote } from '../../../protocol/tdx/quote'
import { PPID } from '../../../sandbox/enclave/machine'
import { lie, quoteOfMachine, withClaim } from '../../kit/verify/lying_machine'
import { changedPolicy, openSite, type Site } from '../../kit/verify/site'

let site: Site
let honest: EvidenceBundle
beforeAll(async () => {
  site = await openSite()
  honest = (await site.connect()).evidence
})
afterAll(() => site.close())

async function failures(bundle: EvidenceBundle, change: Partial<VerificationPolicy> = {}): Promise<string[]> {
  const { checks } = await judgeEvidence(bundle, changedPolicy(site.policy, change), 'recorded')
  return checks.filter((one) => one.result === 'fail').map((one) => `${one.name}: ${one.reason}`)
}

describe('statements the settlement key itself signed', () => {
  const statement_seed = new Uint8Array(32).fill(6)
  const statement_key = publicKeyOf(statement_seed)

  /** The honest binding with changed contents, signed rightly all the way up. */
  function signedAs(
    body: Partial<BindingBody>,
    certified: Partial<StatementBody> = {},
    bundle = honest,
  ): EvidenceBundle {
    const binding = BINDING_BODY.decode(fromAnyHex(bundle.attestation.binding.body)!)
    const { venue, epoch } = binding
    const certificate = STATEMENT_BODY.encode({ venue, epoch, statement_key, ...certified })
    const signed = BINDING_BODY.encode({ ...binding, ...body })
    return {
      ...bundle,
      attestation: {
        ...bundle.attestation,
        binding: {
          body: toHex(signed),
          signature: toHex(sign(statement_seed, signed)),
          certificate: toHex(certificate),
          certificate_signature: toHex(sign(site.settlement_seed, certificate)),
          statement_key: encodeBase58(statement_key),
        },
      },
    }
  }
  const other = new Uint8Array(32).fill(9)

  test('rightly signed, they pass', async () => {
    expect(await failures(signedAs({}))).toEqual([])
  })
  test('a machine without an instance id is bound, and placed, under twenty zero bytes', async () => {
    lie(site, { log: withClaim('instance-id', ''), info: { instance_id: '' } })
    const { evidence } = (await site.connect().catch((error: unknown) => error)) as VerificationFailed
    site.restore()
    const instance_id = new Uint8Array(20)
    const bound = signedAs({ instance_id }, {}, evidence)
    expect(await failures(bound)).toEqual([])
    expect(await failures(evidence)).toEqual(['binding: the binding is of another instance'])
    const authority = {
      name: 'one',
      key: encodeBase58(statement_key),
      url: 'http://127.0.0.1:1',
      levels: ['registry' as const],
    }
    const placed = async (instance: Uint8Array) => {
      const term = { issued_s: 0n, expires_s: 2n ** 40n, site: '' }
      const body = encodeLocation({ ppid: PPID, instance_id: instance, level: 'registry', ...term })
      const signature = toHex(sign(statement_seed, body))
      const location = [{ authority: 'one', body: toHex(body), signature }]
      return failures({ ...bound, location }, { location: { authorities: [authority], minimum: 1 } })
    }
    expect(await placed(instance_id)).toEqual([])
    expect((await placed(new Uint8Array(20).fill(1)))[0]).toMatch(/about another instance/)
  })
  test('a statement key certified for another venue, epoch or key is refused', async () => {
    expect(await failures(signedAs({}, { venue: other }))).toEqual([
      'binding: the statement key is certified for another venue',
    ])
    expect(await failures(signedAs({}, { epoch: 0n }))).toEqual([
      'binding: the statement key is certified for another epoch',
    ])
    expect(await failures(signedAs({}, { statement_key: other }))).toEqual([
      'binding: another statement key is certified',
    ])
  })
  test('a binding of another venue, nonce, instance or epoch is refused', async () => {
    expect(await failures(signedAs({ venue: other }, { venue: other }))).toEqual([
      'binding: the binding is of another venue',
    ])
    expect(await failures(signedAs({ nonce: other }))).toEqual(['binding: the binding answers another nonce'])
    expect(await failures(signedAs({ instance_id: new Uint8Array(20) }))).toEqual([
      'binding: the binding is of another instance',
    ])
    expect(await failures(signedAs({ epoch: 2n }, { epoch: 2n }))).toEqual([
      'binding: the binding is of another epoch',
    ])
  })
  test('a venue that states an epoch the chain has left is refused', async () => {
    const bundle = signedAs({ epoch: 2n }, { epoch: 2n })
    expect(await failures({ ...bundle, info: { ...honest.info, epoch: 2 } })).toEqual([
      'settlement_signer: the vault is in another epoch',
    ])
  })
  test('a vault of the layout that also took keys without a quote is refused', async () => {
    const chain = honest.chain!
    const data = Buffer.from(chain.config.data, 'base64')
    const longer = Buffer.concat([data.subarray(0, 240), Buffer.alloc(40), data.subarray(240)])
    const config = { ...chain.config, data: longer.toString('base64') }
    expect((await failures({ ...honest, chain: { ...chain, config } }))[0]).toBe(
      'settlement_signer: the vault account is malformed',
    )
  })
  test('a venue id that is not the hash of this vault is refused', async () => {
    const bundle = signedAs({ venue: other }, { venue: other })
    expect(await failures({ ...bundle, info: { ...honest.info, venue: toHex(other) } })).toEqual([
      'settlement_signer: the venue id is of another vault',
    ])
  })
  test('a binding of another TLS key is refused', async () => {
    expect((await failures(signedAs({ spki_sha256: other })))[0]).toMatch(/^tls_key/)
  })
})

describe('report data', () => {
  test('a venue that states another settlement key than it attests is refused', async () => {
    const info = { ...honest.info, tee_pubkey: 'So11111111111111111111111111111111111111112' }
    expect((await failures({ ...honest, info }))[0]).toBe('report_data: the venue states two settlement keys')
  })
  test('evidence collected without a nonce is refused', async () => {
    const attestation = JSON.parse(await site.answers.get('/attestation')!(undefined))
    const bundle = { ...honest, attestation, nonce: '00'.repeat(32) }
    expect(await failures(bundle)).toEqual(['report_data: no nonce was sent'])
    expect((await failures({ ...honest, nonce: 'FF'.repeat(32) }))[0]).toBe('report_data: no nonce was sent')
  })
  test('a stated report_data that is not the quoted one is refused', async () => {
    const attestation = { ...honest.attestation, report_data: '00'.repeat(64) }
    expect((await failures({ ...honest, attestation }))[0]).toMatch(/not the quoted one/)
  })
})

describe('evidence files', () => {
  const registersOf = () => parseQuote(fromAnyHex(honest.attestation.quote)!).report.rtmr
  const line = (name: string, text: string) => `${toHex(sha256(utf8(text)))}  ${name}\n`
  function evidenceOver(
    cert_pem: string,
    registers: ReturnType<typeof registersOf>,
    sha256sum_txt = line('cert.pem', cert_pem),
    more: Record<string, string> = {},
  ): EvidenceBundle {
    const report_data = evidenceReportData(utf8(sha256sum_txt))
    const quote_json = JSON.stringify({ quote: toHex(quoteOfMachine(site, { registers, report_data })) })
    return { ...honest, evidences: { quote_json, cert_pem, sha256sum_txt, more } }
  }
  test('made again by the same machine over the same certificate, they pass', async () => {
    expect(await failures(evidenceOver(honest.evidences.cert_pem, registersOf()))).toEqual([])
  })
  test('every listed file is compared, one that is listed and absent is refused', async () => {
    const { cert_pem } = honest.evidences
    const list = line('acme-account.json', '{}') + line('cert.pem', cert_pem)
    const judged = (more: Record<string, string>, text = list) =>
      failures(evidenceOver(cert_pem, registersOf(), text, more))
    expect(await judged({ 'acme-account.json': '{}' })).toEqual([])
    expect(await judged({ 'acme-account.json': '{} ' })).toEqual([
      'evidence: acme-account.json is not the listed one',
    ])
    expect(await judged({})).toEqual(['evidence: acme-account.json is listed and could not be read'])
    expect(await judged({}, list + line('constructor', ''))).toEqual([
      'evidence: acme-account.json is listed and could not be read',
    ])
    expect(await judged({}, line('cert.pem', cert_pem) + line('constructor', ''))).toEqual([
      'evidence: constructor is listed and could not be read',
    ])
    expect(await judged({}, line('other.pem', cert_pem))).toEqual(['evidence: cert.pem is not listed'])
    for (const name of ['../cert.pem', '.hidden', '__proto__'])
      expect(await judged({}, line('cert.pem', cert_pem) + line(name, ''))).toEqual([
        'evidence: sha256sum.txt is malformed',
      ])
  })
  test('of another machine they are refused', async () => {
    const zero = new Uint8Array(48)
    const bundle = evidenceOver(honest.evidences.cert_pem, [zero, zero, zero, zero])
    expect(await failures(bundle)).toEqual(['evidence: the evidence quote is of another machine'])
  })
  test('of a machine that differs in one measured field they are refused', async () => {
    const { cert_pem } = honest.evidences
    const sha256sum_txt = line('cert.pem', cert_pem)
    const report_data = evidenceReportData(utf8(sha256sum_txt))
    // MRTD, MRCONFIGID, RTMR0 to RTMR3 in a TD report.
    for (const at of [136, 184, 328, 376, 424, 472])
      for (const byte of [at, at + 47]) {
        const body = (report: Uint8Array) => report.fill(report[byte]! ^ 1, byte, byte + 1)
        const quote = quoteOfMachine(site, { registers: registersOf(), report_data }, { body })
        const quote_json = JSON.stringify({ quote: toHex(quote) })
        const bundle = { ...honest, evidences: { quote_json, cert_pem, sha256sum_txt, more: {} } }
        expect(await failures(bundle)).toEqual(['evidence: the evidence quote is of another machine'])
      }
  })
  test('with a certificate that the quoted list does not list they are refused', async () => {
    const bundle = evidenceOver('another text', registersOf())
    const evidences = { ...bundle.evidences, cert_pem: honest.evidences.cert_pem }
    expect(await failures({ ...bundle, evidences })).toEqual(['evidence: cert.pem is not the listed one'])
  })
  test('over the certificate of another key they are refused', async () => {
    const { cert_pem } = generateTls([], Date.now())
    expect(await failures(evidenceOver(cert_pem, registersOf()))).toEqual([
      'evidence: cert.pem is of another TLS key',
    ])
    expect(await failures(evidenceOver('no certificate', registersOf()))).toEqual([
      'evidence: cert.pem is not a certificate',
    ])
  })
})

describe('the vault', () => {
  const SYSTEM = '11111111111111111111111111111111'
  const withChain = (change: Partial<ChainRecord>) => ({ ...honest, chain: { ...honest.chain!, ...change } })
  /** The vault's account with bytes overwritten; offsets as in `protocol/vault/accounts.ts`. */
  function withConfig(at: number, bytes: Uint8Array): EvidenceBundle {
    const data = Buffer.from(honest.chain!.config.data, 'base64')
    data.set(bytes, at)
    return withChain({ config: { ...honest.chain!.config, data: data.toString('base64') } })
  }
  const cases: [name: string, bundle: () => EvidenceBundle, failure: RegExp][] = [
    ['frozen', () => withConfig(4, Uint8Array.of(1)), /^vault_state: the vault is frozen/],
    ['with another signer', () => withConfig(112, new Uint8Array(32).fill(5)), /another settlement key/],
    ['opened by another build', () => withConfig(160, new Uint8Array(32)), /opened by another build/],
    ['in another generation', () => withConfig(8, Uint8Array.of(1)), /another generation/],
    ['whose account is malformed', () => withConfig(0, Uint8Array.of(0)), /malformed/],
    ['with a new administrator', () => withConfig(240, new Uint8Array(32).fill(1)), /announced set_admin/],
    ['about to be restored', () => withConfig(280, Uint8Array.of(1)), /announced authorize_restore/],
    [
      'of another owner',
      () => withChain({ config: { ...honest.chain!.config, owner: SYSTEM } }),
      /not owned by the pinned program/,
    ],
    [
      "whose program is another loader's",
      () => withChain({ program: { ...honest.chain!.program, owner: SYSTEM } }),
      /^program: the program is not of/,
    ],
    [
      "whose program data is another loader's",
      () => withChain({ program_data: { ...honest.chain!.program_data, owner: SYSTEM } }),
      /^program: the program's data/,
    ],
    ['on another cluster', () => withChain({ genesis_hash: SYSTEM }), /another cluster/],
  ]
  for (const [name, bundle, failure] of cases)
    test(`a vault ${name} is refused`, async () => {
      expect((await failures(bundle()))[0]).toMatch(failure)
    })

  test('a replaceable program is refused, unless its authority and the program are pinned', async () => {
    const bundle = withChain({
      program_data: { ...honest.chain!.program_data, upgrade_authority: SYSTEM },
    })
    const judge = (change: object) => failures(bundle, { chain: { ...site.policy.chain!, ...change } })
    const { sha256: program_sha256 } = honest.chain!.program_data
    expect(await judge({ program_sha256 })).toEqual([`program: ${SYSTEM} may replace the program`])
    const upgrade_authorities = [SYSTEM]
    expect(await judge({ upgrade_authorities })).toEqual([
      'program: a program that can be replaced needs a pinned hash',
    ])
    expect(await judge({ upgrade_authorities, program_sha256 })).toEqual([])
  })
})
