/** Quotes of real hardware, and quotes that are damaged, signed by the wrong key, of the wrong enclave or a weak machine. */

import { describe, expect, test } from 'bun:test'
import { generateKeyPairSync } from 'node:crypto'
import qvl, { QuoteVerifier } from '@phala/dcap-qvl'
import { INTEL_ROOTS, openCollateral } from '../../../client/verify/tdx/collateral'
import { verifyUnderCollateral } from '../../../client/verify/tdx/genuine_quote'
import * as der from '../../../enclave/der'
import * as x509 from '../../../enclave/x509'
import { concatBytes, toHex } from '../../../protocol/bytes'
import { PCK_CHAIN_BYTES_MAX } from '../../../protocol/limits'
import { parseQuote } from '../../../protocol/tdx/quote'
import { pemOfDer } from '../../../protocol/x509/certificate'
import {
  issueRevocationList,
  PLATFORM_AUTHORITY_NAME,
  ROOT_NAME,
  sgxExtension,
} from '../../../sandbox/enclave/authorities'
import { CPU_SVN, FMSPC, PCE_ID, PCE_SVN, PPID } from '../../../sandbox/enclave/machine'
import {
  collateralOf,
  makePki,
  NOW_MS,
  outcome,
  quoteOf,
  STRICT,
  withDocument,
} from '../../kit/verify/development_pki'
import {
  type Changes,
  fieldFlips,
  HAVE_QUOTES,
  readAnswer,
  realQuotes,
  type Signing,
  signAnyQuote,
} from '../../kit/verify/sign_any_quote'

const DAY_MS = 86_400_000
const REISSUED_SERIAL = new Uint8Array(16).fill(0x41)
const pki = makePki()
const { keys, authorities } = pki
const quote = quoteOf(pki)
const collateral = collateralOf(pki)
const rightful: Signing = {
  pck: keys.pck,
  chain: [authorities.pck, authorities.platform_authority, authorities.root],
}
const judge = (bytes: Uint8Array) => outcome(pki, bytes, collateral)
const judgeSigned = (changes: Changes, signing = rightful) => judge(signAnyQuote(quote, signing, changes))

/** A certificate as the development authority would issue it, but for the change. */
function certificate(change: Partial<x509.CertificateRequest>): Uint8Array {
  return x509.issueCertificate({
    subject: { common_name: 'DEVELOPMENT ONLY SGX PCK Certificate', organization: 'Tacit' },
    issuer: PLATFORM_AUTHORITY_NAME,
    subject_key: keys.pck,
    issuer_key: keys.platform_authority,
    serial: authorities.pck_serial,
    not_before_ms: NOW_MS - DAY_MS,
    not_after_ms: NOW_MS + DAY_MS,
    extensions: [x509.keyUsage(0, 1), x509.basicConstraints(false), sgxExtension()],
    ...change,
  })
}
const withLeaf = (leaf: Uint8Array): Signing => ({
  pck: keys.pck,
  chain: [leaf, authorities.platform_authority, authorities.root],
})

test('honest quotes are accepted, version 4 and 5, TD 1.0 and 1.5', async () => {
  expect(await judge(quote)).toBe('accepted')
  expect(await judgeSigned({})).toBe('accepted')
  expect(await judgeSigned({ version_5: true })).toBe('accepted')
  const versions = quote.slice(48, 64)
  expect(await judgeSigned({ td_15: concatBytes(versions, new Uint8Array(48)) })).toBe('accepted')
  expect(await judgeSigned({}, withLeaf(certificate({})))).toBe('accepted')
})

test('dcap-qvl agrees on honest quotes under the same root', () => {
  const oracle = QuoteVerifier.newWithRootCa(Buffer.from(authorities.root))
  for (const bytes of [quote, signAnyQuote(quote, rightful)]) {
    const { status, advisory_ids } = oracle.verify(Buffer.from(bytes), collateral as never, NOW_MS / 1000)
    expect([status, advisory_ids]).toEqual(['UpToDate', []])
  }
})

describe('bytes', () => {
  test('a flipped bit in any field is refused', async () => {
    for (const { field, flipped } of fieldFlips(quote))
      expect(`${field}: ${await judge(flipped)}`).not.toMatch(/accepted/)
  })
  test('a quote cut anywhere, or followed by anything but zeros, is refused', async () => {
    const end = quote.length - 70
    for (let length = 0; length < end; length += 101)
      expect(await judge(quote.slice(0, length))).not.toBe('accepted')
    expect(await judge(quote.slice(0, end))).toBe('accepted')
    expect(await judge(concatBytes(quote, Uint8Array.of(1)))).toMatch(/followed by/)
    expect(await judge(new Uint8Array(quote.length))).not.toBe('accepted')
  })
})

describe('signatures', () => {
  const stranger = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey
  test('a quoting enclave report signed by another key than the PCK is refused', async () => {
    expect(await judgeSigned({}, { ...rightful, pck: stranger })).toMatch(/not signed by the PCK/)
  })
  test('an attestation key that the quoting enclave did not certify is refused', async () => {
    expect(await judgeSigned({ qe_report: (report) => report.fill(7, 320, 352) })).toMatch(/not certified/)
    expect(await judgeSigned({ qe_report: (report) => report.fill(7, 352, 384) })).toMatch(/not certified/)
  })
  test('a zero signature is refused', async () => {
    const zero = quote.slice()
    zero.fill(0, 636, 700)
    expect(await judge(zero)).toMatch(/not signed by its attestation key/)
  })
  test('a point off the curve as attestation key is refused', async () => {
    const off = quote.slice()
    off.fill(1, 700, 764)
    expect(await judge(off)).not.toBe('accepted')
  })
})

describe('the PCK chain', () => {
  const cases: [name: string, signing: Signing][] = [
    ['two certificates', { ...rightful, chain: [authorities.pck, authorities.root] }],
    ['four certificates', { ...rightful, chain: [...rightful.chain, authorities.root] }],
    ['another order', { ...rightful, chain: [...rightful.chain].reverse() }],
    ['an expired leaf', withLeaf(certificate({ not_after_ms: NOW_MS - 1000 }))],
    ['a leaf from the future', withLeaf(certificate({ not_before_ms: NOW_MS + 1000 }))],
    ['a leaf in another role', withLeaf(certificate({ subject: ROOT_NAME }))],
    [
      'a leaf named as TCB signer',
      { pck: keys.tcb_signing, chain: [authorities.tcb_signing, ...rightful.chain.slice(1)] },
    ],
    ['a leaf the root signed', withLeaf(certificate({ issuer_key: keys.root }))],
    ['a leaf of another issuer', withLeaf(certificate({ issuer: ROOT_NAME }))],
    ['a leaf signed by itself', withLeaf(certificate({ issuer_key: keys.pck }))],
    [
      'a leaf that is an authority',
      withLeaf(
        certificate({ extensions: [x509.keyUsage(0, 5), x509.basicConstraints(true), sgxExtension()] }),
      ),
    ],
    [
      'a leaf without the right to sign',
      withLeaf(certificate({ extensions: [x509.keyUsage(1), x509.basicConstraints(false), sgxExtension()] })),
    ],
    [
      'a leaf without platform facts',
      withLeaf(certificate({ extensions: [x509.keyUsage(0), x509.basicConstraints(false)] })),
    ],
    [
      'an unknown critical extension',
      withLeaf(
        certificate({
          extensions: [
            x509.keyUsage(0),
            x509.basicConstraints(false),
            sgxExtension(),
            x509.extension('1.2.3.4', true, der.octets(new Uint8Array(1))),
          ],
        }),
      ),
    ],
    [
      'a repeated extension',
      withLeaf(
        certificate({
          extensions: [x509.keyUsage(0), x509.basicConstraints(false), sgxExtension(), sgxExtension()],
        }),
      ),
    ],
    [
      'an authority that is none',
      { ...rightful, chain: [authorities.pck, authority(false), authorities.root] },
    ],
  ]
  for (const [name, signing] of cases)
    test(`${name} is refused`, async () => {
      expect(await judgeSigned({}, signing)).not.toBe('accepted')
    })

  test('an authority of another name over the same key is refused: the list is not its own', async () => {
    const name = { ...PLATFORM_AUTHORITY_NAME, common_name: 'DEVELOPMENT ONLY SGX PCK Processor CA' }
    const renamed = certificate({
      subject: name,
      issuer: ROOT_NAME,
      subject_key: keys.platform_authority,
      issuer_key: keys.root,
      extensions: [x509.keyUsage(5, 6), x509.basicConstraints(true)],
    })
    const chain = [certificate({ issuer: name }), renamed, authorities.root]
    expect(await judgeSigned({}, { ...rightful, chain })).toMatch(/another PCK authority/)
  })
  test('a chain of more bytes than a quote may carry is not read', async () => {
    const of = (count: number) => judgeSigned({}, { ...rightful, chain: Array(count).fill(authorities.root) })
    const text_bytes = pemOfDer(authorities.root, 'CERTIFICATE').length
    const fitting = Math.floor((PCK_CHAIN_BYTES_MAX - 1) / text_bytes)
    expect(await of(fitting)).toMatch(/not three certificates/)
    expect(await of(fitting + 1)).toMatch(/chain is too long/)
  })
  test('platform facts with a member too few, twice, foreign or of another width are refused', async () => {
    const SGX = '1.2.840.113741.1.13.1'
    const item = (path: string, value: Uint8Array) => der.sequence(der.oid(`${SGX}.${path}`), value)
    const svns = CPU_SVN.length
    const components = Array.from(CPU_SVN, (svn, at) => item(`2.${at + 1}`, der.smallInteger(svn)))
    const tcb = [...components, item('2.17', der.smallInteger(PCE_SVN))]
    const facts = [
      item('1', der.octets(PPID)),
      item('2', der.sequence(...tcb)),
      item('3', der.octets(PCE_ID)),
      item('4', der.octets(FMSPC)),
    ]
    const judgeFacts = (...members: Uint8Array[]) => {
      const extension = x509.extension(SGX, false, der.sequence(...members))
      const extensions = [x509.keyUsage(0), x509.basicConstraints(false), extension]
      return judgeSigned({}, withLeaf(certificate({ extensions })))
    }
    expect(await judgeFacts(...facts)).toBe('accepted')
    for (let at = 0; at < facts.length; at++) {
      expect(await judgeFacts(...facts.toSpliced(at, 1))).toMatch(/lacks a field/)
      expect(await judgeFacts(...facts, facts[at]!)).toMatch(/extension is malformed/)
    }
    for (let at = 0; at <= svns; at++) {
      const less = item('2', der.sequence(...tcb.toSpliced(at, 1)))
      expect(await judgeFacts(...facts.with(1, less))).toMatch(/lacks a field/)
      const twice = item('2', der.sequence(...tcb, tcb[at]!))
      expect(await judgeFacts(...facts.with(1, twice))).toMatch(/extension is malformed/)
    }
    for (const foreign of ['1.2.840.113741.1.13.9.1', '1.2.840.113741.1.13.11'])
      expect(await judgeFacts(...facts, der.sequence(der.oid(foreign), der.octets(PPID)))).toMatch(
        /extension is malformed/,
      )
    const widths = [
      [0, '1', PPID],
      [2, '3', PCE_ID],
      [3, '4', FMSPC],
    ] as const
    for (const [at, path, value] of widths)
      for (const other of [value.slice(1), concatBytes(value, Uint8Array.of(0))])
        expect(await judgeFacts(...facts.with(at, item(path, der.octets(other))))).toMatch(/another width/)
  })

  test('the authority reissued over the same key is accepted, over another key it is refused', async () => {
    const chain = [authorities.pck, authority(true), authorities.root]
    expect(await judgeSigned({}, { ...rightful, chain })).toBe('accepted')
    const other = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey
    const leaf = certificate({ issuer_key: other })
    const stolen = { pck: keys.pck, chain: [leaf, authority(true, other), authorities.root] }
    expect(await judgeSigned({}, stolen)).toMatch(/another PCK authority/)
    const root_ca_crl = toHex(
      issueRevocationList({
        issuer: ROOT_NAME,
        issuer_key: keys.root,
        this_update_ms: NOW_MS - DAY_MS,
        next_update_ms: NOW_MS + DAY_MS,
        revoked_serials: [REISSUED_SERIAL],
      }),
    )
    const reissued = signAnyQuote(quote, { ...rightful, chain })
    expect(await outcome(pki, reissued, { ...collateral, root_ca_crl })).toMatch(/is revoked/)
    expect(await outcome(pki, quote, { ...collateral, root_ca_crl })).toBe('accepted')
  })
})

function authority(ca: boolean, subject_key = keys.platform_authority): Uint8Array {
  return certificate({
    subject: PLATFORM_AUTHORITY_NAME,
    issuer: ROOT_NAME,
    subject_key,
    issuer_key: keys.root,
    serial: REISSUED_SERIAL,
    extensions: [x509.keyUsage(5, 6), x509.basicConstraints(ca)],
  })
}

function flip(bytes: Uint8Array, at: number, bits: number): void {
  bytes[at]! ^= bits
}

describe('the quoting enclave', () => {
  const changes: [name: string, at: number, reason: RegExp][] = [
    ['miscselect', 16, /miscselect/],
    ['attributes', 48, /attributes/],
    ['signer', 128, /signer/],
    ['product', 256, /product/],
  ]
  for (const [name, at, reason] of changes)
    test(`another ${name} is refused`, async () => {
      const changed = { qe_report: (report: Uint8Array) => flip(report, at, 1) }
      expect(await judgeSigned(changed)).toMatch(reason)
    })
  test('debug, other flags, product and miscselect are refused, even if collateral allows them', async () => {
    const lax = withDocument(pki, 'qe_identity', (value) =>
      Object.assign(value, {
        attributes: '00'.repeat(16),
        attributesMask: '00'.repeat(16),
        miscselectMask: '00000000',
        isvprodid: 3,
      }),
    )
    const judgeLax = (change: (report: Uint8Array) => void) =>
      outcome(pki, signAnyQuote(quote, rightful, { qe_report: change }), lax)
    expect(await judgeLax((report) => flip(report, 48, 2))).toMatch(/under debug/)
    for (const bits of [1, 8, 16, 32, 64, 128])
      expect(await judgeLax((report) => flip(report, 48, bits))).toMatch(/other attributes/)
    expect(await judgeLax((report) => flip(report, 16, 1))).toMatch(/miscselect/)
    expect(await judgeLax((report) => flip(report, 256, 1))).toMatch(/product/)
    // PROVISION_KEY is free: Intel's enclave has it.
    expect(await judgeSigned({ qe_report: (report) => flip(report, 48, 4) })).toBe('accepted')
  })
  test('a reserved byte of header or report that is not zero is refused', async () => {
    for (const at of [8, 11])
      expect(await judgeSigned({ header: (header) => flip(header, at, 1) })).toMatch(/reserved byte/)
    for (const at of [20, 47, 96, 127, 160, 255, 260, 319])
      expect(await judgeSigned({ qe_report: (report) => flip(report, at, 1) })).toMatch(/reserved byte/)
  })
  test('a version below every level is refused', async () => {
    expect(await judgeSigned({ qe_report: (report) => report.fill(0, 258, 260) })).toMatch(/below every/)
  })
  test('another vendor than Intel is refused', async () => {
    expect(await judgeSigned({ header: (header) => header.fill(0, 12, 28) })).toMatch(/not from Intel/)
  })
})

describe('the machine', () => {
  const attributes = (at: number, bits: number): Changes => ({
    body: (body) => flip(body, 120 + at, bits),
  })
  test('a machine under debug is refused', async () => {
    expect(await judge(quoteOf(pki, { debug: true }))).toMatch(/under debug/)
    for (let bit = 0; bit < 8; bit++) expect(await judgeSigned(attributes(0, 1 << bit))).toMatch(/debug/)
  })
  test('a machine whose memory faults the host may inject is refused', async () => {
    expect(await judgeSigned(attributes(3, 0x10))).toBe(
      'the host may inject memory faults (SEPT_VE_DISABLE is off)',
    )
  })
  test('every other attribute is refused', async () => {
    for (let bit = 8; bit < 64; bit++) {
      if (bit === 28) continue
      const named = { 29: /MIGRATABLE/, 63: /PERFMON/ }[bit] ?? /unexpected attributes/
      expect(await judgeSigned(attributes(bit >> 3, 1 << (bit & 7)))).toMatch(named)
    }
  })
  test('a module that Intel did not sign or that has attributes is refused, even if collateral allows it', async () => {
    const lax = withDocument(pki, 'tcb_info', (value) => {
      const free = { mrsigner: '01'.repeat(48), attributes: '01'.repeat(8), attributesMask: '01'.repeat(8) }
      const info = value as unknown as { tdxModule: object; tdxModuleIdentities: object[] }
      for (const signer of [info.tdxModule, ...info.tdxModuleIdentities]) Object.assign(signer, free)
    })
    const signed = (from: number, to: number) =>
      signAnyQuote(quote, rightful, {
        body: (body) => {
          body.fill(1, 64, 120)
          body.fill(0, from, to)
        },
      })
    expect(await outcome(pki, signed(0, 0), lax)).toMatch(/not signed by Intel/)
    const unsigned = withDocument(pki, 'tcb_info', (value) => {
      const free = { attributes: '01'.repeat(8), attributesMask: '01'.repeat(8) }
      const info = value as unknown as { tdxModule: object; tdxModuleIdentities: object[] }
      for (const signer of [info.tdxModule, ...info.tdxModuleIdentities]) Object.assign(signer, free)
    })
    expect(await outcome(pki, signed(64, 112), unsigned)).toMatch(/module has attributes/)
  })
  test('a TD 1.5 machine whose module has another major version than at launch is refused', async () => {
    for (const major of [0, 2, 3]) {
      const running = quote.slice(48, 64)
      running[1] = major
      const judged = await judgeSigned({ td_15: concatBytes(running, new Uint8Array(48)) })
      expect(judged).not.toBe('accepted')
      if (major !== 2) expect(judged).toMatch(/another major version/)
    }
  })
  test('a service TD is refused', async () => {
    const td_15 = concatBytes(quote.slice(48, 64), new Uint8Array(48).fill(1))
    expect(await judgeSigned({ td_15 })).toMatch(/service TD/)
  })
})

async function realOutcome(quote: Uint8Array, collateral: unknown, now_ms: number): Promise<string> {
  try {
    const verified = await verifyUnderCollateral(
      quote,
      await openCollateral(collateral as never, INTEL_ROOTS, now_ms),
      STRICT,
      now_ms,
    )
    return verified.finding.status
  } catch (error) {
    return (error as Error).message
  }
}

test.skipIf(!HAVE_QUOTES)('real quotes are accepted at their dates, as dcap-qvl accepts them', async () => {
  for (const { quote, collateral, now_ms } of realQuotes()) {
    const verified = await verifyUnderCollateral(
      quote,
      await openCollateral(collateral, INTEL_ROOTS, now_ms),
      STRICT,
      now_ms,
    )
    const oracle = qvl.verify(Buffer.from(quote), collateral as never, Math.floor(now_ms / 1000))
    expect(verified.finding.status).toBe(oracle.status as 'UpToDate')
    expect([...verified.finding.advisories]).toEqual(oracle.advisory_ids)
  }
})

test.skipIf(!HAVE_QUOTES)(
  'a real quote is refused before its collateral was issued and after it ended',
  async () => {
    for (const { quote, collateral, now_ms } of realQuotes()) {
      expect(await realOutcome(quote, collateral, now_ms - DAY_MS)).toMatch(/from the future/)
      expect(await realOutcome(quote, collateral, now_ms + 40 * DAY_MS)).toMatch(/has expired/)
      expect(await realOutcome(quote, collateral, Number.NaN)).not.toBe('UpToDate')
    }
  },
)

test.skipIf(!HAVE_QUOTES)('the period of TCB info ends with its last second', async () => {
  const { quote, collateral, now_ms } = realQuotes()[0]!
  const { issueDate } = JSON.parse(collateral.tcb_info) as { issueDate: string }
  const issued_ms = Date.parse(JSON.parse(collateral.qe_identity).issueDate)
  expect(Date.parse(issueDate)).toBeLessThan(now_ms)
  expect(await realOutcome(quote, collateral, issued_ms)).toBe('UpToDate')
  expect(await realOutcome(quote, collateral, issued_ms - 1)).toMatch(/future/)
})

test.skipIf(!HAVE_QUOTES)('a flipped bit in any signed field of a real quote is refused', async () => {
  for (const { quote, collateral, now_ms } of realQuotes())
    for (const { field, flipped } of fieldFlips(quote))
      expect(`${field}: ${await realOutcome(flipped, collateral, now_ms)}`).not.toMatch(/UpToDate/)
})

test.skipIf(!HAVE_QUOTES)("one machine's collateral does not vouch for another machine", async () => {
  const [first, second] = realQuotes()
  expect(await realOutcome(first!.quote, second!.collateral, second!.now_ms)).toMatch(/another platform/)
})

test.skipIf(!HAVE_QUOTES)('a quote of dstack 0.6 has the exact structure', () => {
  const { quote } = readAnswer('dstack-0.6-lite')
  expect(parseQuote(new Uint8Array(Buffer.from(quote, 'hex'))).pck_chain.length).toBe(3)
})
