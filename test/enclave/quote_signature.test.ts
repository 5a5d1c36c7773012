/** The signature walk of a quote up to its root, on real and development quotes. */
import { expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { quoteRootKey } from '../../enclave/self_check'
import { toHex } from '../../protocol/bytes'
import { INTEL_ROOT_KEY } from '../../protocol/tdx/collateral'
import { parseQuote } from '../../protocol/tdx/quote'

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
})
