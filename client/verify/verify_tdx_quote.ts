/** Judges a quote alone: genuine, current, and from an admissible machine. Runs in Bun, Node and browsers. */
import { toHex } from '../../protocol/bytes'
import type { OpenedCollateral } from './tdx/collateral'
import { type GenuineQuote, requireMachine, verifyGenuine } from './tdx/genuine_quote'
import { type PlatformPolicy, requirePlatform } from './tdx/platform'
import type { TcbFinding } from './tdx/tcb_info'

type VerifiedQuote = GenuineQuote & { finding: TcbFinding }

/** The periods of the collateral are judged again at this `now_ms`. @throws Refused, MalformedQuote */
export async function verifyUnderCollateral(
  bytes: Uint8Array,
  collateral: OpenedCollateral,
  policy: PlatformPolicy,
  now_ms: number,
): Promise<VerifiedQuote> {
  const genuine = await verifyGenuine(bytes, collateral, now_ms)
  const finding = requirePlatform(genuine, collateral, policy)
  requireMachine(genuine.quote.report)
  return { ...genuine, finding }
}

/** The facts of a verified quote, for a log. */
export function describePlatform(
  { platform }: GenuineQuote,
  finding: TcbFinding,
  collateral: OpenedCollateral,
): Record<string, string> {
  return {
    tcb_status: finding.status,
    tcb_date: finding.tcb_date,
    advisories: finding.advisories.join(' ') || 'none',
    tcb_evaluation_number: String(collateral.tcb_info.evaluation_number),
    fmspc: toHex(platform.fmspc),
    ppid: toHex(platform.ppid),
  }
}
