/**
 * Runs `bun run verify-quote`: judges whether a TDX quote is genuine and its platform current at a given time.
 *   --quote FILE       raw bytes, hex, or a GetQuote answer
 *   --collateral FILE  JSON as dcap-qvl writes it
 *   --now ISO          time at which periods are judged; default now
 *   --root PEM         replaces Intel's root: development only
 *   --policy FILE      TCB statuses, advisories, minimum evaluation number, physical machines
 * Prints one JSON verdict. Exit code: 0 accept, 1 reject, 64 usage.
 */
import { parseArgs } from 'node:util'
import { toHex } from '../../protocol/bytes'
import { BARE_POLICY, parsePolicy } from '../verify/policy'
import { quoteOfFile } from '../verify/read_quote_file'
import { onlyIntel, openCollateral, trustedRoots } from '../verify/tdx/collateral'
import { parseCollateral } from '../verify/tdx/collateral_form'
import { Refused, reasonOf } from '../verify/transcript'
import { describePlatform, verifyUnderCollateral } from '../verify/verify_tdx_quote'
import { answerHelp, readInput, readInputText } from './options'

const USAGE = `usage: bun run verify-quote --quote FILE --collateral FILE [--now ISO] [--root PEM] [--policy FILE]
  --quote       raw bytes, hex, or the answer of GetQuote or /attestation
  --collateral  JSON as dcap-qvl writes it
  --now         time at which periods are judged; default now
  --root        replaces Intel's root: development only
  --policy      TCB statuses, advisories, minimum evaluation number, physical machines
exit code: 0 accept, 1 reject, 64 usage`

type Options = { quote: string; collateral: string; now?: string; root?: string; policy?: string }

async function verdict(options: Options): Promise<Record<string, unknown>> {
  const now_ms = options.now === undefined ? Date.now() : Date.parse(options.now)
  if (Number.isNaN(now_ms)) throw new Refused('the time is malformed')
  const policy = options.policy === undefined ? BARE_POLICY : parsePolicy(readInputText(options.policy))
  const roots_pem = options.root === undefined ? policy.roots_pem : readInputText(options.root)
  const roots = trustedRoots(roots_pem)
  const collateral = await openCollateral(parseCollateral(readInputText(options.collateral)), roots, now_ms)
  const bytes = quoteOfFile(readInput(options.quote))
  const verified = await verifyUnderCollateral(bytes, collateral, policy, now_ms)
  const { report } = verified.quote
  return {
    verdict: 'accept',
    reason: 'the quote is genuine and its platform is as the policy asks',
    judged_at: new Date(now_ms).toISOString(),
    intel_root: onlyIntel(roots),
    ...describePlatform(verified, verified.finding, collateral),
    mr_td: toHex(report.mr_td),
    mr_config_id: toHex(report.mr_config_id),
    rtmr: report.rtmr.map(toHex),
    report_data: toHex(report.report_data),
  }
}

function readOptions(): Options | undefined {
  const text = { type: 'string' } as const
  const options = { quote: text, collateral: text, now: text, root: text, policy: text }
  try {
    const { values } = parseArgs({ options })
    return values.quote === undefined || values.collateral === undefined ? undefined : (values as Options)
  } catch {
    return undefined
  }
}

answerHelp(USAGE)
const options = readOptions()
if (options === undefined) {
  console.error(USAGE)
  process.exit(64)
}
const answer = await verdict(options).catch((error: unknown) => ({
  verdict: 'reject',
  reason: reasonOf(error),
}))
console.log(JSON.stringify(answer))
process.exit(answer.verdict === 'accept' ? 0 : 1)
