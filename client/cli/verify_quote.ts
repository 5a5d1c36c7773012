/** Runs `bun run verify-quote`: judges whether a TDX quote is genuine and its platform current at a given time. */
import { toHex } from '../../protocol/bytes'
import { BARE_POLICY, parsePolicy } from '../verify/policy'
import { quoteOfFile } from '../verify/read_quote_file'
import { onlyIntel, openCollateral, trustedRoots } from '../verify/tdx/collateral'
import { parseCollateral } from '../verify/tdx/collateral_form'
import { Refused, reasonOf } from '../verify/transcript'
import { describePlatform, verifyUnderCollateral } from '../verify/verify_tdx_quote'
import { Options, readInput, runCommand } from './command'

const USAGE = `usage: bun run verify-quote --quote FILE --collateral FILE [--now ISO] [--root PEM] [--policy FILE]
  --quote       raw bytes, hex, or the answer of GetQuote or /attestation
  --collateral  JSON as dcap-qvl writes it
  --now         time at which periods are judged; default now
  --root        replaces Intel's root: development only
  --policy      TCB statuses, advisories, minimum evaluation number, physical machines
exit code: 0 accept, 1 reject, 64 usage`

type QuoteOptions = Options<'quote' | 'collateral' | 'now' | 'root' | 'policy'>

async function verdict(options: QuoteOptions): Promise<Record<string, unknown>> {
  const now = options.optional('now')
  const now_ms = now === undefined ? Date.now() : Date.parse(now)
  if (Number.isNaN(now_ms)) throw new Refused('the time is malformed')
  const given = options.file('policy')
  const policy = given === undefined ? BARE_POLICY : parsePolicy(given)
  const roots = trustedRoots(options.file('root') ?? policy.roots_pem)
  const collateral = await openCollateral(parseCollateral(options.file('collateral')!), roots, now_ms)
  const bytes = quoteOfFile(readInput(options.text('quote')))
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

await runCommand(USAGE, async (args) => {
  const texts = ['quote', 'collateral', 'now', 'root', 'policy'] as const
  const options: QuoteOptions = new Options(args, { texts })
  for (const name of ['quote', 'collateral'] as const) options.text(name)
  const answer = await verdict(options).catch((error: unknown) => ({
    verdict: 'reject',
    reason: reasonOf(error),
  }))
  console.log(JSON.stringify(answer))
  return answer['verdict'] === 'accept'
})
