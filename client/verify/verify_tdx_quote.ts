/**
 * One call for a quote alone: is it genuine, current and from a machine as it must be? WebCrypto and `protocol/` only, so
 * it runs in Bun, Node and a browser.
 */
import { toHex } from '../../protocol/bytes'
import type { Collateral } from '../../protocol/tdx/collateral'
import { type OpenedCollateral, openCollateral, type TrustedRoots } from './tdx/collateral'
import { type GenuineQuote, requireMachine, verifyGenuine } from './tdx/genuine_quote'
import { type PlatformPolicy, requirePlatform } from './tdx/platform'
import type { TcbFinding } from './tdx/tcb_info'

type VerifiedQuote = GenuineQuote & { finding: TcbFinding }

/** @throws Refused, MalformedQuote */
export async function verifyTdxQuote(
  bytes: Uint8Array,
  collateral: Collateral,
  roots: TrustedRoots,
  policy: PlatformPolicy,
  now_ms: number,
): Promise<VerifiedQuote> {
  return verifyUnderCollateral(bytes, await openCollateral(collateral, roots, now_ms), policy, now_ms)
}

/** The same with collateral opened before; its periods are judged at this `now_ms` again. */
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

/** What a log shows of a verified quote. */
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
