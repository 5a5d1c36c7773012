/** Runs `tacit verify`: prints the transcript of one verification and returns its exit code. */
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { connect } from '../connect'
import { VerificationFailed } from '../verified_venue'
import { EvidenceUnavailable } from '../verify/collect/collect_venue'
import { type EvidenceBundle, parseBundle } from '../verify/evidence_bundle'
import { judgeEvidence } from '../verify/judge_evidence'
import { BARE_POLICY, parsePolicy, type VerificationPolicy } from '../verify/policy'
import { parseCollateral } from '../verify/tdx/collateral_form'
import { Refused, type Transcript, transcriptText, type Verdict } from '../verify/transcript'
import { readInputText } from './options'

export const VERIFY_USAGE = `usage: tacit verify URL [--policy FILE] [--collateral FILE] [--manifest FILE] [--bundle OUT] [--json]
       tacit verify --offline BUNDLE [--policy FILE] [--json]
exit code: 0 accepted, 1 refused, 2 nothing failed but a skip is not permitted, 3 no evidence, 64 usage`

const EXIT: Record<Verdict, number> = { verified: 0, partial: 0, failed: 1, incomplete: 2 }
const NO_EVIDENCE = 3
const USAGE = 64

const text = { type: 'string' } as const
const OPTIONS = {
  policy: text,
  collateral: text,
  manifest: text,
  bundle: text,
  offline: text,
  json: { type: 'boolean' },
} as const
type Values = { [K in Exclude<keyof typeof OPTIONS, 'json'>]?: string | undefined } & {
  json?: boolean | undefined
}

/** @returns the exit code. */
export async function runVerify(args: readonly string[]): Promise<number> {
  const parsed = parse(args)
  if (parsed === undefined) {
    console.error(VERIFY_USAGE)
    return USAGE
  }
  const { url, values } = parsed
  try {
    const policy = values.policy === undefined ? BARE_POLICY : parsePolicy(readInputText(values.policy))
    const { transcript, evidence } =
      url === undefined ? await judgeFile(values.offline!, policy) : await judgeVenue(url, policy, values)
    console.log(values.json === true ? JSON.stringify(transcript, null, 2) : transcriptText(transcript))
    if (values.bundle !== undefined) writeText(values.bundle, `${JSON.stringify(evidence, null, 2)}\n`)
    return EXIT[transcript.verdict]
  } catch (error) {
    if (!(error instanceof EvidenceUnavailable || error instanceof Refused)) throw error
    console.error(error.message)
    return error instanceof EvidenceUnavailable ? NO_EVIDENCE : USAGE
  }
}

function parse(args: readonly string[]): { url: string | undefined; values: Values } | undefined {
  try {
    const { values, positionals } = parseArgs({ args: [...args], options: OPTIONS, allowPositionals: true })
    const [url] = positionals
    const sources = positionals.length + (values.offline === undefined ? 0 : 1)
    if (sources !== 1 || (url !== undefined && !/^https:\/\//.test(url))) return undefined
    return { url, values }
  } catch {
    return undefined
  }
}

type Judged = { transcript: Transcript; evidence: EvidenceBundle }

async function judgeVenue(url: string, policy: VerificationPolicy, values: Values): Promise<Judged> {
  const options = {
    ...(values.collateral === undefined
      ? {}
      : { collateral: parseCollateral(readInputText(values.collateral)) }),
    ...(values.manifest === undefined ? {} : { app_compose: readInputText(values.manifest) }),
  }
  try {
    return await connect(url, policy, options)
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
