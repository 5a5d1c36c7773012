/** Malformed collateral: every field and member with every wrong value is rejected by its form, never by a crash. */
import { expect, test } from 'bun:test'
import { openCollateral, parseCollateral, trustedRoots } from '../../../client/verify/tdx/collateral'
import { verifyUnderCollateral } from '../../../client/verify/tdx/genuine_quote'
import { Refused } from '../../../client/verify/transcript'
import type { Collateral } from '../../../protocol/tdx/collateral'
import {
  collateralOf,
  makePki,
  NOW_MS,
  quoteOf,
  STRICT,
  withDocument,
} from '../../kit/verify/development_pki'

const pki = makePki()
const quote = quoteOf(pki)
const honest = collateralOf(pki)
const roots = trustedRoots(pki.root_pem)
const DEEP = `${'['.repeat(200_000)}`

/** `accepted`, the sentence of a rejection, or the name of an error that is no rejection. */
async function outcome(collateral: unknown): Promise<string> {
  try {
    const opened = await openCollateral(collateral as Collateral, roots, NOW_MS)
    await verifyUnderCollateral(quote, opened, STRICT, NOW_MS)
    return 'accepted'
  } catch (error) {
    return error instanceof Refused ? error.message : `CRASH ${(error as Error).name}`
  }
}
async function requireRefused(collateral: unknown, label: string): Promise<void> {
  const said = await outcome(collateral)
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
  expect(await outcome(honest)).toBe('accepted')
  for (const field of Object.keys(honest))
    for (const value of WRONG) await requireRefused({ ...honest, [field]: value }, `${field} ${typeof value}`)
  for (const value of [undefined, null, 1, 'text', [], [honest]]) await requireRefused(value, 'collateral')
})

test('fields beside the nine are ignored as text and rejected as anything else', async () => {
  expect(await outcome({ ...honest, pck_certificate_chain: 'text' })).toBe('accepted')
  expect(await outcome({ ...honest, pck_certificate_chain: null })).toBe('accepted')
  for (const value of [1, true, [], {}])
    expect(await outcome({ ...honest, more: value })).toBe('the collateral has no well formed more')
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
        const said = await outcome(withDocument(pki, document, (value) => put(value, path, wrong)))
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
    expect(await outcome(withDocument(pki, document, (value) => put(value, path, member)))).toMatch(
      new RegExp(`no well formed ${String(path.at(-1))}$`),
    )
})

test('certificates and lists cut short or with a flipped byte never crash', async () => {
  for (const field of ['root_ca_crl', 'pck_crl', 'pck_crl_issuer_chain', 'tcb_info_issuer_chain'] as const)
    for (let at = 0; at < honest[field].length; at += 37) {
      const text = honest[field]
      await requireRefused({ ...honest, [field]: text.slice(0, at) }, `${field} cut at ${at}`)
      const said = await outcome({ ...honest, [field]: `${text.slice(0, at)}5${text.slice(at + 1)}` })
      expect(said).not.toMatch(/CRASH/)
    }
})
