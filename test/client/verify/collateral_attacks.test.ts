/** Forged, swapped, empty and outdated collateral is rejected under every signing key. */

import { describe, expect, test } from 'bun:test'
import { checkCollateral, checkEnclave } from '../../../client/verify/checks/quote'
import type { VerificationCase } from '../../../client/verify/checks/verification_case'
import {
  INTEL_ROOTS,
  onlyIntel,
  openCollateral,
  type TrustedRoots,
  trustedRoots,
} from '../../../client/verify/tdx/collateral'
import { verifyUnderCollateral } from '../../../client/verify/tdx/genuine_quote'
import * as x509 from '../../../enclave/x509'
import { toHex } from '../../../protocol/bytes'
import { derOfPem, pemOfDer } from '../../../protocol/pem'
import type { Collateral } from '../../../protocol/tdx/collateral'
import { issueRevocationList, PLATFORM_AUTHORITY_NAME, ROOT_NAME } from '../../../sandbox/enclave/authorities'
import {
  collateralOf,
  makePki,
  NOW_MS,
  outcome,
  quoteOf,
  STRICT,
  signText,
  withDocument,
} from '../../kit/verify/development_pki'

const DAY_MS = 86_400_000
const pki = makePki()
const { keys, authorities } = pki
const quote = quoteOf(pki)
const honest = collateralOf(pki)
const judge = (change: Partial<Collateral>, now_ms = NOW_MS) =>
  outcome(pki, quote, { ...honest, ...change }, STRICT, now_ms)
const list = (change: Partial<Parameters<typeof issueRevocationList>[0]>) =>
  toHex(
    issueRevocationList({
      issuer: PLATFORM_AUTHORITY_NAME,
      issuer_key: keys.platform_authority,
      this_update_ms: NOW_MS - DAY_MS,
      next_update_ms: NOW_MS + DAY_MS,
      revoked_serials: [],
      ...change,
    }),
  )
const serialOf = (der: Uint8Array): Uint8Array => {
  // Version 3 certificates here begin with two sequences, the version, then the serial number of 20 bytes.
  const at = der.findIndex((byte, i) => byte === 0x02 && der[i + 1] === 20)
  return der.slice(at + 2, at + 22)
}
const pem = (...ders: Uint8Array[]): string => ders.map((der) => pemOfDer(der, 'CERTIFICATE')).join('')

test('honest collateral is accepted', async () => {
  expect(await judge({})).toBe('accepted')
  expect(await judge({ pck_crl: list({}) })).toBe('accepted')
})

describe('revocation lists', () => {
  test('an absent, empty or garbled list is refused', async () => {
    for (const field of ['pck_crl', 'root_ca_crl'] as const)
      for (const text of [
        '',
        '00',
        'zz',
        '3000',
        'a'.repeat(101),
        honest[field].slice(0, -2),
        `${honest[field]}00`,
      ])
        expect(`${field} ${await judge({ [field]: text })}`).not.toMatch(/accepted/)
  })
  test('a list with a broken signature is refused', async () => {
    for (const field of ['pck_crl', 'root_ca_crl'] as const) {
      // The last byte of DER is the last of the signature's s.
      const broken = honest[field].slice(0, -1) + (honest[field].endsWith('0') ? '1' : '0')
      expect(await judge({ [field]: broken })).toMatch(/not signed by its issuer/)
    }
  })
  test('a list of another authority in its place is refused', async () => {
    expect(await judge({ pck_crl: honest.root_ca_crl })).toMatch(/another issuer/)
    expect(await judge({ root_ca_crl: honest.pck_crl })).toMatch(/another issuer/)
  })
  test("a list that another key signed in the authority's name is refused", async () => {
    expect(await judge({ pck_crl: list({ issuer_key: keys.pck }) })).toMatch(/not signed/)
    expect(await judge({ root_ca_crl: list({ issuer: ROOT_NAME }) })).toMatch(/not signed/)
  })
  test('an expired list and one from the future are refused', async () => {
    const expired = { this_update_ms: NOW_MS - 2 * DAY_MS, next_update_ms: NOW_MS - 1000 }
    expect(await judge({ pck_crl: list(expired) })).toMatch(/expired/)
    expect(await judge({ pck_crl: list({ this_update_ms: NOW_MS + 1000 }) })).toMatch(/future/)
  })
  test('a revoked PCK, PCK authority or TCB signing key is refused', async () => {
    expect(await judge({ pck_crl: list({ revoked_serials: [authorities.pck_serial] }) })).toMatch(/revoked/)
    for (const der of [authorities.platform_authority, authorities.tcb_signing]) {
      const revoking = list({ issuer: ROOT_NAME, issuer_key: keys.root, revoked_serials: [serialOf(der)] })
      expect(await judge({ root_ca_crl: revoking })).toMatch(/revoked/)
    }
  })
  test('a signer of the QE identity alone is revoked too', async () => {
    const issuer = x509.issueCertificate({
      subject: { common_name: 'DEVELOPMENT ONLY SGX TCB Signing', organization: 'Tacit' },
      issuer: ROOT_NAME,
      subject_key: keys.tcb_signing,
      issuer_key: keys.root,
      serial: Uint8Array.of(77),
      not_before_ms: NOW_MS - DAY_MS,
      not_after_ms: NOW_MS + DAY_MS,
      extensions: [x509.keyUsage(0, 1), x509.basicConstraints(false)],
    })
    const qe_identity_issuer_chain = pem(issuer, authorities.root)
    expect(await judge({ qe_identity_issuer_chain })).toBe('accepted')
    const root_ca_crl = list({
      issuer: ROOT_NAME,
      issuer_key: keys.root,
      revoked_serials: [Uint8Array.of(77)],
    })
    expect(await judge({ qe_identity_issuer_chain, root_ca_crl })).toMatch(/revoked/)
  })
  test("a serial number that merely resembles the PCK's revokes nothing", async () => {
    const other = authorities.pck_serial.slice()
    other[19]! ^= 1
    expect(await judge({ pck_crl: list({ revoked_serials: [other] }) })).toBe('accepted')
  })
})

describe('signed documents', () => {
  const documents = ['tcb_info', 'qe_identity'] as const
  test('a document signed by a PCK, an authority or the root itself is refused', async () => {
    const signers = [
      [keys.pck, authorities.pck],
      [keys.platform_authority, authorities.platform_authority],
      [keys.root, authorities.root],
    ] as const
    for (const document of documents)
      for (const [key, der] of signers) {
        const signature = { [`${document}_signature`]: signText(honest[document], key) }
        expect(await judge(signature)).toMatch(/not signed by the TCB signing key/)
        const chain = { [`${document}_issuer_chain`]: pem(der, authorities.root) }
        expect(await judge({ ...signature, ...chain })).toMatch(/stands in for the role|issuer/)
      }
  })
  test('a PCK with its own authority above it does not make an issuer chain', async () => {
    const chain = pem(authorities.pck, authorities.platform_authority, authorities.root)
    const tcb_info_signature = signText(honest.tcb_info, keys.pck)
    expect(await judge({ tcb_info_issuer_chain: chain, tcb_info_signature })).toMatch(/not two certificates/)
    const two = pem(authorities.pck, authorities.platform_authority)
    expect(await judge({ tcb_info_issuer_chain: two, tcb_info_signature })).toMatch(/root is not trusted/)
  })
  test('a changed, swapped or unsigned document is refused', async () => {
    for (const document of documents) {
      expect(await judge({ [document]: `${honest[document]} ` })).toMatch(/not signed/)
      expect(await judge({ [`${document}_signature`]: '00'.repeat(64) })).toMatch(/not signed/)
      expect(await judge({ [`${document}_signature`]: '' })).toMatch(/absent/)
    }
    const { tcb_info, tcb_info_signature } = honest
    const swapped = { qe_identity: tcb_info, qe_identity_signature: tcb_info_signature }
    expect(await judge(swapped)).toMatch(/QE identity/)
  })
  test('a document is refused before its issue and after its end', async () => {
    for (const document of documents) {
      const at = (issue_ms: number, next_ms: number) =>
        withDocument(pki, document, (value) => {
          Object.assign(value, { issueDate: iso(issue_ms), nextUpdate: iso(next_ms) })
        })
      expect(await judge(at(NOW_MS + 1000, NOW_MS + DAY_MS))).toMatch(/from the future/)
      expect(await judge(at(NOW_MS - DAY_MS, NOW_MS - 1000))).toMatch(/expired/)
      expect(await judge(at(NOW_MS, NOW_MS))).toBe('accepted')
      const nonsense = withDocument(pki, document, (value) => Object.assign(value, { nextUpdate: 'never' }))
      expect(await judge(nonsense)).toMatch(/no well formed nextUpdate/)
    }
  })
  test('a document of another kind or version is refused', async () => {
    for (const document of documents)
      for (const change of [{ id: 'SGX' }, { version: 9 }, { id: undefined }]) {
        const changed = withDocument(pki, document, (value) => Object.assign(value, change))
        expect(await judge(changed)).not.toBe('accepted')
      }
    const other_type = withDocument(pki, 'tcb_info', (value) => Object.assign(value, { tcbType: 1 }))
    expect(await judge(other_type)).toMatch(/type is unknown/)
  })
})

/** The root's certificate, or as changed another one under its key. */
const issue = (change: Partial<x509.CertificateRequest>) =>
  x509.issueCertificate({
    subject: ROOT_NAME,
    issuer: ROOT_NAME,
    subject_key: keys.root,
    issuer_key: keys.root,
    serial: Uint8Array.of(78),
    not_before_ms: NOW_MS - DAY_MS,
    not_after_ms: NOW_MS + DAY_MS,
    extensions: [x509.keyUsage(5, 6), x509.basicConstraints(true, 1)],
    ...change,
  })
/** What makes it one of the TCB signing key. */
const SIGNER = {
  subject: { common_name: 'DEVELOPMENT ONLY SGX TCB Signing', organization: 'Tacit' },
  subject_key: keys.tcb_signing,
  extensions: [x509.keyUsage(0, 1), x509.basicConstraints(false)],
}

describe('issuer chains', () => {
  test('a chain under another root is refused', async () => {
    const other = collateralOf(makePki())
    for (const field of [
      'pck_crl_issuer_chain',
      'tcb_info_issuer_chain',
      'qe_identity_issuer_chain',
    ] as const)
      expect(await judge({ [field]: other[field] })).toMatch(/root is not trusted/)
    expect(await outcome(makePki(), quote, honest)).toMatch(/root is not trusted/)
  })
  test('a chain with a certificate too few, too many, out of order or garbled is refused', async () => {
    const [issuer, root] = derOfPem(honest.tcb_info_issuer_chain, 'CERTIFICATE')!
    const chains = [
      pem(issuer!),
      pem(root!, issuer!),
      pem(issuer!, root!, root!),
      pem(root!, root!),
      '',
      'PEM',
    ]
    for (const chain of chains) expect(await judge({ tcb_info_issuer_chain: chain })).not.toBe('accepted')
  })
  test('a root that allows no authority below it issues signers and no PCK authority', async () => {
    const root = issue({ extensions: [x509.keyUsage(5, 6), x509.basicConstraints(true, 0)] })
    expect(await judge({ tcb_info_issuer_chain: pem(authorities.tcb_signing, root) })).toBe('accepted')
    expect(await judge({ pck_crl_issuer_chain: pem(authorities.platform_authority, root) })).toMatch(
      /longer than its authority allows/,
    )
    const below = issue({})
    expect(await judge({ pck_crl_issuer_chain: pem(authorities.platform_authority, below) })).toBe('accepted')
  })
  test("a certificate of the root's key in another role is no root", async () => {
    const name = { ...ROOT_NAME, common_name: 'DEVELOPMENT ONLY SGX TCB Signing' }
    const chain = pem(issue({ ...SIGNER, issuer: name }), issue({ subject: name, issuer: name }))
    expect(await judge({ qe_identity_issuer_chain: chain })).toMatch(/stands in for the role root/)
    const leaf = issue({ extensions: [x509.keyUsage(5, 6), x509.basicConstraints(false)] })
    expect(await judge({ qe_identity_issuer_chain: pem(authorities.tcb_signing, leaf) })).toMatch(
      /root certificate's constraints are wrong/,
    )
  })
  test('a root or issuer that names another issuer, is no authority or is not current is refused', async () => {
    const OTHER = { ...ROOT_NAME, organization: 'Other' }
    const roots: [Partial<x509.CertificateRequest>, RegExp][] = [
      [{ issuer: OTHER }, /another name/],
      [{ subject: OTHER }, /another name/],
      [{ subject: OTHER, issuer: OTHER }, /another name/],
      [{ issuer_key: keys.pck }, /not signed by its issuer/],
      [{ not_before_ms: NOW_MS + 1000 }, /not valid yet/],
      [{ not_after_ms: NOW_MS - 1000 }, /expired/],
      [{ extensions: [x509.keyUsage(0, 6), x509.basicConstraints(true, 1)] }, /no authority/],
    ]
    for (const [change, reason] of roots) {
      const chain = pem(authorities.tcb_signing, issue(change))
      expect(await judge({ qe_identity_issuer_chain: chain })).toMatch(reason)
    }
    const signers: [Partial<x509.CertificateRequest>, RegExp][] = [
      [{}, /accepted/],
      [{ issuer: OTHER }, /another name/],
      [{ issuer_key: keys.pck }, /not signed by its issuer/],
      [{ not_before_ms: NOW_MS + 1000 }, /not valid yet/],
      [{ not_after_ms: NOW_MS - 1000 }, /expired/],
    ]
    for (const [change, reason] of signers) {
      const chain = pem(issue({ ...SIGNER, ...change }), authorities.root)
      expect(await judge({ qe_identity_issuer_chain: chain })).toMatch(reason)
    }
  })
  test('collateral is refused once its certificates have expired', async () => {
    expect(await judge({}, NOW_MS + 6 * 365 * DAY_MS)).toMatch(/expired/)
  })
})

const iso = (unix_ms: number): string => `${new Date(unix_ms).toISOString().slice(0, 19)}Z`

test("roots are Intel's alone only when no other root, and one at least, is trusted", async () => {
  const own = trustedRoots(pki.root_pem)
  expect(onlyIntel(INTEL_ROOTS)).toBe(true)
  for (const roots of [[], own, [...INTEL_ROOTS, ...own], [...own, ...INTEL_ROOTS]])
    expect(onlyIntel(roots)).toBe(false)
  const others = trustedRoots(makePki().root_pem + pki.root_pem)
  await expect(openCollateral(honest, others, NOW_MS)).resolves.toBeDefined()
  const judged = { bundle: { attestation: { enclave: 'development' } }, policy: { roots_pem: 'text' } }
  const under = (roots: TrustedRoots) => checkEnclave({ ...judged, roots } as unknown as VerificationCase)
  expect(under(own)).toEqual({ enclave: 'development' })
  expect(() => under(INTEL_ROOTS)).toThrow('simulated enclave')
})

function ending(document: 'tcb_info' | 'qe_identity'): Partial<Collateral> {
  const ends = { nextUpdate: iso(NOW_MS + DAY_MS) }
  const changed = withDocument(pki, document, (value) => Object.assign(value, ends))
  return { [document]: changed[document], [`${document}_signature`]: changed[`${document}_signature`] }
}

test('collateral opened once is judged again at each use', async () => {
  const roots = trustedRoots(pki.root_pem)
  const opened = await openCollateral(honest, roots, NOW_MS)
  const judge = (now_ms: number) => verifyUnderCollateral(quote, opened, STRICT, now_ms)
  expect((await judge(NOW_MS)).finding.status).toBe('UpToDate')
  await expect(judge(NOW_MS + 31 * DAY_MS)).rejects.toThrow(/expired/)
  await expect(judge(NOW_MS - DAY_MS)).rejects.toThrow(/future/)
  await expect(judge(Number.NaN)).rejects.toThrow(/not a number/)
  for (const now_ms of [NOW_MS + 31 * DAY_MS, Number.NaN])
    await expect(openCollateral(honest, roots, now_ms)).rejects.toThrow()
  // Each part that ends first, while all others are current.
  const root_ends = { issuer: ROOT_NAME, issuer_key: keys.root }
  const later_ms = NOW_MS + 2 * DAY_MS
  for (const [change, reason] of [
    [{ pck_crl: list({}) }, 'a revocation list has expired'],
    [{ root_ca_crl: list(root_ends) }, 'a revocation list has expired'],
    [ending('tcb_info'), 'TCB info has expired'],
    [ending('qe_identity'), 'QE identity has expired'],
  ] as const) {
    const soon = await openCollateral({ ...honest, ...change }, roots, NOW_MS)
    await expect(verifyUnderCollateral(quote, soon, STRICT, later_ms)).rejects.toThrow(reason)
    const valid_until = await checkCollateral({
      bundle: { collateral: { ...honest, ...change } },
      roots,
      now_ms: NOW_MS,
      established: {},
    } as unknown as VerificationCase)
    expect(valid_until['valid_until']).toBe(new Date(NOW_MS + DAY_MS).toISOString())
  }
  const qe_identity_issuer_chain = pem(issue(SIGNER), authorities.root)
  const soon = await openCollateral({ ...honest, qe_identity_issuer_chain }, roots, NOW_MS)
  await expect(verifyUnderCollateral(quote, soon, STRICT, later_ms)).rejects.toThrow(
    'a certificate has expired',
  )
  // Lists that outlive the documents: only the documents' own period can reject.
  const lasting = { this_update_ms: NOW_MS - DAY_MS, next_update_ms: NOW_MS + 60 * DAY_MS }
  const lists = {
    pck_crl: list(lasting),
    root_ca_crl: list({ ...lasting, issuer: ROOT_NAME, issuer_key: keys.root }),
  }
  await expect(openCollateral({ ...honest, ...lists }, roots, NOW_MS + 31 * DAY_MS)).rejects.toThrow(
    /TCB info/,
  )
})
