/** The verifier on quotes of real hardware, beside dcap-qvl. */
import { expect, test } from 'bun:test'
import qvl from '@phala/dcap-qvl'
import { INTEL_ROOTS, openCollateral } from '../../../client/verify/tdx/collateral'
import { verifyUnderCollateral } from '../../../client/verify/tdx/genuine_quote'
import { parseQuote } from '../../../protocol/tdx/quote'
import { STRICT } from '../../kit/verify/development_pki'
import { fieldFlips } from '../../kit/verify/quote_fields'
import { HAVE_QUOTES, readAnswer, realQuotes } from '../../kit/verify/real_quotes'

const DAY_MS = 86_400_000

async function outcome(quote: Uint8Array, collateral: unknown, now_ms: number): Promise<string> {
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
      expect(await outcome(quote, collateral, now_ms - DAY_MS)).toMatch(/from the future/)
      expect(await outcome(quote, collateral, now_ms + 40 * DAY_MS)).toMatch(/has expired/)
      expect(await outcome(quote, collateral, Number.NaN)).not.toBe('UpToDate')
    }
  },
)

test.skipIf(!HAVE_QUOTES)('the period of TCB info ends with its last second', async () => {
  const { quote, collateral, now_ms } = realQuotes()[0]!
  const { issueDate } = JSON.parse(collateral.tcb_info) as { issueDate: string }
  const issued_ms = Date.parse(JSON.parse(collateral.qe_identity).issueDate)
  expect(Date.parse(issueDate)).toBeLessThan(now_ms)
  expect(await outcome(quote, collateral, issued_ms)).toBe('UpToDate')
  expect(await outcome(quote, collateral, issued_ms - 1)).toMatch(/future/)
})

test.skipIf(!HAVE_QUOTES)('a flipped bit in any signed field of a real quote is refused', async () => {
  for (const { quote, collateral, now_ms } of realQuotes())
    for (const { field, flipped } of fieldFlips(quote))
      expect(`${field}: ${await outcome(flipped, collateral, now_ms)}`).not.toMatch(/UpToDate/)
})

test.skipIf(!HAVE_QUOTES)("one machine's collateral does not vouch for another machine", async () => {
  const [first, second] = realQuotes()
  expect(await outcome(first!.quote, second!.collateral, second!.now_ms)).toMatch(/another platform/)
})

test.skipIf(!HAVE_QUOTES)('a quote of dstack 0.6 has the exact structure', () => {
  const { quote } = readAnswer('dstack-0.6-lite')
  expect(parseQuote(new Uint8Array(Buffer.from(quote, 'hex'))).pck_chain.length).toBe(3)
})
