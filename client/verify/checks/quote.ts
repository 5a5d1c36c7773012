/** Check 1.2: the quote is genuine. */
import { fromAnyHex } from '../../../protocol/any_hex'
import { toHex } from '../../../protocol/bytes'
import { Refused } from '../refused'
import { verifyGenuine } from '../tdx/genuine_quote'
import { established, type RunCheck } from './verification_case'

export const checkQuote: RunCheck = async (verification) => {
  const { bundle, now_ms } = verification
  const bytes = fromAnyHex(bundle.attestation.quote)
  if (bytes === undefined) throw new Refused('the quote is not hex')
  const genuine = await verifyGenuine(bytes, established(verification, 'collateral'), now_ms)
  verification.established.genuine = genuine
  const { quote, platform } = genuine
  return {
    version: String(quote.version),
    fmspc: toHex(platform.fmspc),
    ppid: toHex(platform.ppid),
    mr_seam: toHex(quote.report.mr_seam),
  }
}
