/** Forged, swapped, outdated and malformed collateral is rejected under every signing key, by its form and never by a crash. */

import { describe, expect, test } from 'bun:test'
import { checkCollateral, checkEnclave } from '../../../client/verify/checks/quote'
import type { VerificationCase } from '../../../client/verify/checks/verification_case'
import {
  INTEL_ROOTS,
  onlyIntel,
  openCollateral,
  parseCollateral,
  type TrustedRoots,
  trustedRoots,
} from '../../../client/verify/tdx/collateral'
import { verifyUnderCollateral } from '../../../client/verify/tdx/genuine_quote'
import { Refused } from '../../../client/verify/transcript'
import * as x509 from '../../../enclave/x509'
import { toHex } from '../../../protocol/bytes'
import type { Collateral } from '../../../protocol/tdx/collateral'
import { derOfPem, pemOfDer } from '../../../protocol/x509/certificate'
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
        expect(await judge({ ...signature, ...chain })).toMatch(
          /is used in the role \w+ without having it|issuer/,
        )
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
/** The marks of a TCB signing key. */
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
    expect(await judge({ qe_identity_issuer_chain: chain })).toMatch(
      /is used in the role root without having it/,
    )
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

const roots = trustedRoots(pki.root_pem)
const DEEP = `${'['.repeat(200_000)}`

/** `accepted`, the sentence of a rejection, or the name of an error that is no rejection. */
async function malformedOutcome(collateral: unknown): Promise<string> {
  try {
    const opened = await openCollateral(collateral as Collateral, roots, NOW_MS)
    await verifyUnderCollateral(quote, opened, STRICT, NOW_MS)
    return 'accepted'
  } catch (error) {
    return error instanceof Refused ? error.message : `CRASH ${(error as Error).name}`
  }
}
async function requireRefused(collateral: unknown, label: string): Promise<void> {
  const said = await malformedOutcome(collateral)
  expect(`${label}: ${said}`).not.toMatch(/: accepted$|: CRASH/)
}

const WRONG: unknown[] = [
  undefined,
  null,
  0,
  -1,
  1.5,
  true,
  [],
  {},
  '',
  'x',
  '00',
  '0',
  'zz',
  DEEP,
  '\ud800',
  '{}',
  '[1]',
]

test('each field of the collateral, absent or of any wrong value', async () => {
  expect(await malformedOutcome(honest)).toBe('accepted')
  for (const field of Object.keys(honest))
    for (const value of WRONG) await requireRefused({ ...honest, [field]: value }, `${field} ${typeof value}`)
  for (const value of [undefined, null, 1, 'text', [], [honest]]) await requireRefused(value, 'collateral')
})

test('fields beside the nine are ignored as text and rejected as anything else', async () => {
  expect(await malformedOutcome({ ...honest, pck_certificate_chain: 'text' })).toBe('accepted')
  expect(await malformedOutcome({ ...honest, pck_certificate_chain: null })).toBe('accepted')
  for (const value of [1, true, [], {}])
    expect(await malformedOutcome({ ...honest, more: value })).toBe('the collateral has no well formed more')
})

test('collateral text that is not an object is rejected', () => {
  for (const text of ['', '{', 'null', '[]', '1', '"x"', DEEP])
    expect(() => parseCollateral(text)).toThrow(Refused)
  expect(parseCollateral(JSON.stringify(honest))).toEqual(honest)
})

/** Paths of all members of a JSON document. */
function* paths(value: unknown, at: (string | number)[] = []): Generator<(string | number)[]> {
  if (typeof value !== 'object' || value === null) return
  for (const key of Array.isArray(value) ? value.keys() : Object.keys(value)) {
    yield [...at, key]
    yield* paths((value as Record<string | number, unknown>)[key], [...at, key])
  }
}

/** Members that Intel adds for readers; the verifier does not read them. */
const UNREAD = /category|type|allowPCEs/

type Path = (string | number)[]
type Holder = Record<string | number, unknown>
function put(value: unknown, path: Path, member: unknown): void {
  const holder = path.slice(0, -1).reduce((inner, key) => (inner as Holder)[key], value) as Holder
  holder[path.at(-1)!] = member
}
const jsonType = (value: unknown): string =>
  Array.isArray(value) ? 'array' : value === null ? 'null' : typeof value
function at(value: unknown, path: Path): unknown {
  return path.reduce((inner, key) => (inner as Holder)[key], value)
}

test('each member of the signed documents, absent or of another type', async () => {
  let judged = 0
  for (const document of ['tcb_info', 'qe_identity'] as const) {
    const whole = JSON.parse(honest[document]) as unknown
    for (const path of paths(whole)) {
      if (UNREAD.test(String(path.at(-1)))) continue
      const type = jsonType(at(whole, path))
      for (const wrong of [undefined, null, -1, 0.5, 'x', [], {}]) {
        const said = await malformedOutcome(withDocument(pki, document, (value) => put(value, path, wrong)))
        const label = `${document} ${path.join('.')} ${JSON.stringify(wrong)}: ${said}`
        expect(label).not.toMatch(/CRASH/)
        if (wrong !== undefined && jsonType(wrong) !== type) expect(label).not.toMatch(/: accepted$/)
        judged++
      }
    }
  }
  expect(judged).toBeGreaterThan(500)
})

type Case = [document: 'tcb_info' | 'qe_identity', path: Path, member: unknown]
const DATES = [
  '2025-02-30T00:00:00Z',
  '2025-13-01T00:00:00Z',
  '2025-01-01T24:00:00Z',
  '2025-01-01',
  '2025-01-01T00:00:00.000Z',
]
const FIELD_WIDTHS = [
  ['tcb_info', 'fmspc', 6],
  ['tcb_info', 'pceId', 2],
  ['qe_identity', 'miscselect', 4],
  ['qe_identity', 'attributes', 16],
  ['qe_identity', 'attributesMask', 16],
  ['qe_identity', 'mrsigner', 32],
] as const

test('a date that does not exist, hex of another width and versions too wide are rejected', async () => {
  const cases: Case[] = [
    ['tcb_info', ['tcbLevels', 1, 'tcbDate'], DATES[0]],
    ['tcb_info', ['tcbLevels', 0, 'tcb', 'sgxtcbcomponents', 3, 'svn'], 256],
    ['tcb_info', ['tcbLevels', 0, 'tcb', 'tdxtcbcomponents', 15, 'svn'], 256],
    ['tcb_info', ['tcbLevels', 0, 'tcb', 'pcesvn'], 65_536],
    ['qe_identity', ['tcbLevels', 0, 'tcb', 'isvsvn'], 65_536],
    ['qe_identity', ['isvprodid'], 65_536],
  ]
  for (const document of ['tcb_info', 'qe_identity'] as const)
    for (const field of ['issueDate', 'nextUpdate'])
      for (const date of DATES) cases.push([document, [field], date])
  for (const [document, field, width] of FIELD_WIDTHS)
    for (const hex of ['', '00'.repeat(width - 1), '00'.repeat(width + 1), `${'00'.repeat(width - 1)}0g`])
      cases.push([document, [field], hex])
  for (const [document, path, member] of cases)
    expect(await malformedOutcome(withDocument(pki, document, (value) => put(value, path, member)))).toMatch(
      new RegExp(`no well formed ${String(path.at(-1))}$`),
    )
})

test('certificates and lists cut short or with a flipped byte never crash', async () => {
  for (const field of ['root_ca_crl', 'pck_crl', 'pck_crl_issuer_chain', 'tcb_info_issuer_chain'] as const)
    for (let at = 0; at < honest[field].length; at += 37) {
      const text = honest[field]
      await requireRefused({ ...honest, [field]: text.slice(0, at) }, `${field} cut at ${at}`)
      const said = await malformedOutcome({
        ...honest,
        [field]: `${text.slice(0, at)}5${text.slice(at + 1)}`,
      })
      expect(said).not.toMatch(/CRASH/)
    }
})
