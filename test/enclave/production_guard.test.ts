/** The signature walk of a quote up to its root, on real and development quotes. */
import { expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { quoteRootKey, requireRoot } from '../../enclave/agent'
import * as x509 from '../../enclave/x509'
import { toHex } from '../../protocol/bytes'
import { INTEL_ROOT_KEY } from '../../protocol/tdx/collateral'
import { parseQuote } from '../../protocol/tdx/quote'
import { PLATFORM_AUTHORITY_NAME, ROOT_NAME } from '../../sandbox/enclave/authorities'
import { makePki, NOW_MS, quoteOf } from '../kit/verify/development_pki'

const FILE = join(import.meta.dir, '../../../shared/quotes/dcap-qvl-b0c06f/quote.bin')
const present = existsSync(FILE)
if (!present) console.log('skipped: no real quote at ../shared/quotes')

const hardwareQuote = () => new Uint8Array(readFileSync(FILE))

test.skipIf(!present)("a hardware quote is signed up to Intel's root key", () => {
  expect(toHex(quoteRootKey(parseQuote(hardwareQuote()))!)).toBe(toHex(INTEL_ROOT_KEY))
})

test.skipIf(!present).each([
  ['the header', 30],
  ['the TD report', 600],
  ['the quote signature', 640],
  ['the attestation key', 720],
  ['the QE report', 780],
  ['the QE report signature', 1160],
  ['the QE authentication data', 1230],
])('a changed byte in %s breaks it', (_, offset) => {
  const bytes = hardwareQuote()
  bytes[offset]! ^= 1
  expect(quoteRootKey(parseQuote(bytes))).toBeUndefined()
})

test.skipIf(!present)('a quote without the root in its chain has no root key', () => {
  const quote = parseQuote(hardwareQuote())
  expect(quoteRootKey({ ...quote, pck_chain: quote.pck_chain.slice(0, 2) })).toBeUndefined()
  expect(quoteRootKey({ ...quote, pck_chain: quote.pck_chain.toReversed() })).toBeUndefined()
  const longer = [...quote.pck_chain, quote.pck_chain[2]!]
  expect(quoteRootKey({ ...quote, pck_chain: longer })).toBeUndefined()
})

test.skipIf(!present).each(['dstack', 'development'] as const)(
  'a %s machine whose quote is not rightly signed does not start',
  (kind) => {
    const bytes = hardwareQuote()
    requireRoot(kind, parseQuote(bytes))
    bytes[600]! ^= 1
    expect(() => requireRoot(kind, parseQuote(bytes))).toThrow('signatures of the own quote do not hold')
  },
)

test('every link of the chain is followed, by name, by key and by role', () => {
  const pki = makePki()
  const { keys, authorities } = pki
  const { pck, platform_authority, root } = authorities
  const DAY_MS = 86_400_000
  const OTHER = { common_name: 'other', organization: 'Tacit' }
  const certificate = (is_authority: boolean, change: Partial<x509.CertificateRequest>) =>
    x509.issueCertificate({
      subject: OTHER,
      issuer: PLATFORM_AUTHORITY_NAME,
      subject_key: keys.pck,
      issuer_key: keys.platform_authority,
      serial: Uint8Array.of(7),
      not_before_ms: NOW_MS - DAY_MS,
      not_after_ms: NOW_MS + DAY_MS,
      extensions: [
        is_authority ? x509.keyUsage(5, 6) : x509.keyUsage(0, 1),
        x509.basicConstraints(is_authority),
      ],
      ...change,
    })
  const under_root = {
    subject: PLATFORM_AUTHORITY_NAME,
    issuer: ROOT_NAME,
    subject_key: keys.platform_authority,
    issuer_key: keys.root,
  }
  const self = { subject: ROOT_NAME, issuer: ROOT_NAME, subject_key: keys.root, issuer_key: keys.root }
  const parsed = parseQuote(quoteOf(pki))
  const rootOf = (...pck_chain: Uint8Array[]) => quoteRootKey({ ...parsed, pck_chain })
  expect(rootOf(pck, platform_authority, root)).toBeDefined()
  const leaf = certificate(false, {})
  const above = certificate(true, under_root)
  const top = certificate(true, self)
  expect(rootOf(leaf, above, top)).toBeDefined()
  const issuer_key = keys.tcb_signing
  const chains = {
    'a leaf that is an authority': [certificate(true, {}), above, top],
    'an authority that is none': [leaf, certificate(false, under_root), top],
    'a root that is no authority': [leaf, above, certificate(false, self)],
    'a leaf that another key signed': [certificate(false, { issuer_key }), above, top],
    'an authority that another key signed': [leaf, certificate(true, { ...under_root, issuer_key }), top],
    'a root that another key signed': [leaf, above, certificate(true, { ...self, issuer_key })],
    'a leaf of another issuer': [certificate(false, { issuer: OTHER }), above, top],
    'an authority of another issuer': [leaf, certificate(true, { ...under_root, issuer: OTHER }), top],
  }
  for (const [name, chain] of Object.entries(chains))
    expect([name, rootOf(...chain)]).toEqual([name, undefined])
})
