/** Runs `tacit verify`: prints the transcript of one verification. */
import { writeFileSync } from 'node:fs'
import { connect } from '../connect'
import { type ConnectOptions, VerificationFailed } from '../verified_venue'
import { type EvidenceBundle, parseBundle } from '../verify/evidence_bundle'
import { judgeEvidence } from '../verify/judge_evidence'
import { BARE_POLICY, parsePolicy, type VerificationPolicy } from '../verify/policy'
import { parseCollateral } from '../verify/tdx/collateral_form'
import { Refused, type Transcript, transcriptText, type Verdict } from '../verify/transcript'
import { Options, readInputText, UsageFault } from './command'

export const VERIFY_USAGE = `usage: tacit verify URL [--policy FILE] [--collateral FILE] [--manifest FILE] [--bundle OUT] [--json]
       tacit verify --offline BUNDLE [--policy FILE] [--json]
exit code: 0 accepted, 1 refused, 2 nothing failed but a skip is not permitted, 3 no evidence, 64 usage`

const EXIT: Record<Verdict, number> = { verified: 0, partial: 0, failed: 1, incomplete: 2 }
const TEXTS = ['policy', 'collateral', 'manifest', 'bundle', 'offline'] as const
type VerifyOptions = Options<(typeof TEXTS)[number], 'json'>

/** @returns the exit code. @throws UsageFault, Refused, EvidenceUnavailable */
export async function runVerify(args: string[]): Promise<number> {
  const options: VerifyOptions = new Options(args, { texts: TEXTS, flags: ['json'], words: 1 })
  const [url] = options.words
  const offline = options.optional('offline')
  const named_once = (url === undefined) !== (offline === undefined)
  if (!named_once || (url !== undefined && (!url.startsWith('https://') || !URL.canParse(url))))
    throw new UsageFault()
  const given = options.file('policy')
  const policy = given === undefined ? BARE_POLICY : parsePolicy(given)
  const { transcript, evidence } =
    url === undefined ? await judgeFile(offline!, policy) : await judgeVenue(url, policy, options)
  console.log(options.flag('json') ? JSON.stringify(transcript, null, 2) : transcriptText(transcript))
  const bundle = options.optional('bundle')
  if (bundle !== undefined) writeText(bundle, `${JSON.stringify(evidence, null, 2)}\n`)
  return EXIT[transcript.verdict]
}

type Judged = { transcript: Transcript; evidence: EvidenceBundle }

/** The collateral and the manifest that the options name. */
export function connectOptions(given: Options<'collateral' | 'manifest'>): ConnectOptions {
  const [collateral, app_compose] = [given.file('collateral'), given.file('manifest')]
  return {
    ...(collateral === undefined ? {} : { collateral: parseCollateral(collateral) }),
    ...(app_compose === undefined ? {} : { app_compose }),
  }
}

async function judgeVenue(url: string, policy: VerificationPolicy, given: VerifyOptions): Promise<Judged> {
  try {
    return await connect(url, policy, connectOptions(given))
  } catch (error) {
    if (error instanceof VerificationFailed) return error
    throw error
  }
}

async function judgeFile(path: string, policy: VerificationPolicy): Promise<Judged> {
  const evidence = parseBundle(readInputText(path))
  return { transcript: await judgeEvidence(evidence, policy, 'recorded'), evidence }
}

function writeText(path: string, content: string): void {
  try {
    writeFileSync(path, content)
  } catch {
    throw new Refused(`${path} cannot be written`)
  }
}
