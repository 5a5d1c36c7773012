/** Runs every check on one bundle of evidence. Pure but for WebCrypto: the same bundle and policy give the same verdict. */
import type { AnnouncedEntry } from '../../protocol/vault/admin'
import {
  checkBinding,
  checkEvidence,
  checkLocation,
  checkMachineList,
  checkReportData,
  checkTlsKey,
} from './checks/binding'
import {
  checkAdmin,
  checkAnnounced,
  checkAppId,
  checkExitDelay,
  checkFollowing,
  checkKeyProvider,
  checkKms,
  checkKmsOwner,
  checkProgram,
  checkSettlementSigner,
  checkVaultState,
  requireAdmitted,
} from './checks/chain'
import {
  checkClaims,
  checkCollateral,
  checkComposeHash,
  checkEnclave,
  checkMachine,
  checkManifest,
  checkMrConfigId,
  checkOsImage,
  checkPlatform,
  checkQuote,
  checkRegisters,
  checkRpcOperators,
  checkXfam,
} from './checks/quote'
import {
  type RunCheck,
  type RunMachineCheck,
  Skipped,
  type VerificationCase,
} from './checks/verification_case'
import { type EvidenceBundle, type MachineEvidence, readBundle } from './evidence_bundle'
import { requireParsed, type SkipReason, type VerificationPolicy } from './policy'
import { onlyIntel, trustedRoots } from './tdx/collateral'
import { CHECKS, type Check, type CheckName, reasonOf, type Transcript, type Verdict } from './transcript'

const RUN_ON_MACHINE = {
  collateral: checkCollateral,
  quote: checkQuote,
  platform: checkPlatform,
  machine: checkMachine,
  xfam: checkXfam,
  enclave: checkEnclave,
  registers: checkRegisters,
  claims: checkClaims,
  mr_config_id: checkMrConfigId,
  app: checkAppId,
  key_provider: checkKeyProvider,
  compose_hash: checkComposeHash,
  manifest: checkManifest,
  rpc_operators: checkRpcOperators,
  os_image: checkOsImage,
  report_data: checkReportData,
} satisfies Partial<Record<CheckName, RunMachineCheck>>

const RUN_ON_NODE = {
  ...RUN_ON_MACHINE,
  binding: checkBinding,
  vault_state: checkVaultState,
  program: checkProgram,
  kms: checkKms,
  kms_owner: checkKmsOwner,
  exit_delay: checkExitDelay,
  admin: checkAdmin,
  announced: checkAnnounced,
  machine_list: checkMachineList,
  location: checkLocation,
} satisfies Partial<Record<CheckName, RunCheck>>
const RUN_ON_LEADER = { ...RUN_ON_NODE, settlement_signer: checkSettlementSigner }
/** Of the node at which the connection ends. */
const RUN_ON_SERVER = { tls_key: checkTlsKey, evidence: checkEvidence }

/**
 * @param source `live` for a bundle that was collected just now over this connection, else `recorded`
 * @throws Refused when the evidence has another form than a bundle, or `parsePolicy` did not make the policy
 */
export async function judgeEvidence(
  evidence: EvidenceBundle,
  policy: VerificationPolicy,
  source: Transcript['source'],
): Promise<Transcript> {
  // Callers pass values that came from JSON.
  const bundle = readBundle(evidence)
  const checks = await runChecksOf(bundle, policy)
  return {
    url: bundle.url,
    judged_at: new Date(bundle.now_ms).toISOString(),
    source,
    intel_root: onlyIntel(trustedRoots(policy.roots_pem)),
    verdict: verdictOf(checks, policy.permitted_skips),
    checks,
  }
}

/** A node that follows is judged as any other, except for its epoch; the one that leads is judged, too. */
async function runChecksOf(bundle: EvidenceBundle, policy: VerificationPolicy): Promise<Check[]> {
  const { leader, missing, info } = bundle
  if (info.epoch !== 0) return runChecks({ ...RUN_ON_LEADER, ...RUN_ON_SERVER }, bundle, policy)
  const run = { ...RUN_ON_NODE, ...RUN_ON_SERVER, following: checkFollowing }
  const checks = await runChecks(run, bundle, policy)
  if (leader === null) return checks
  // One reading of the chain for both.
  const of_leader = { ...bundle, ...leader, missing: { ...missing, ...leader.missing }, leader: null }
  const leading = await runChecks(RUN_ON_LEADER, of_leader, policy)
  return [...checks, ...leading.map((check): Check => ({ ...check, leading: true }))]
}

/**
 * Runs the checks that need neither vault nor connection: those by which a venue judges its own machine.
 * @param announced the vault's current announcements: the machine must be among them, too, as that of another node must
 * @throws Refused when `parsePolicy` did not make the policy
 */
export function judgeMachine(
  evidence: MachineEvidence,
  policy: VerificationPolicy,
  announced?: readonly AnnouncedEntry[],
): Promise<Check[]> {
  if (announced === undefined) return runChecks(RUN_ON_MACHINE, evidence, policy)
  const admitted: RunMachineCheck = (verification) => {
    requireAdmitted(announced, Math.floor(evidence.now_ms / 1000), verification)
    return {}
  }
  return runChecks({ ...RUN_ON_MACHINE, announced: admitted }, evidence, policy)
}

/** In the order of the checks; one that is not in `runs` has no outcome. */
async function runChecks<B extends MachineEvidence>(
  runs: Partial<Record<CheckName, RunCheck<B>>>,
  bundle: B,
  policy: VerificationPolicy,
): Promise<Check[]> {
  requireParsed(policy)
  const roots = trustedRoots(policy.roots_pem)
  const verification = { bundle, policy, roots, now_ms: bundle.now_ms, established: {} }
  const checks: Check[] = []
  for (const [number, name, statement] of CHECKS) {
    const run = runs[name]
    if (run === undefined) continue
    checks.push({ number, name, statement, ...(await outcomeOf(run, verification)) })
  }
  return checks
}

async function outcomeOf<B extends MachineEvidence>(
  run: RunCheck<B>,
  verification: VerificationCase<B>,
): Promise<Pick<Check, 'result' | 'reason' | 'reason_code' | 'values'>> {
  const reason_code = ''
  try {
    return { result: 'pass', reason: '', reason_code, values: await run(verification) }
  } catch (error) {
    if (error instanceof Skipped)
      return { result: 'skipped', reason: error.message, reason_code: error.code, values: {} }
    return { result: 'fail', reason: reasonOf(error), reason_code, values: {} }
  }
}

/** A skip without a code rests on a check that did not pass: no policy permits it. */
export function isPermitted({ reason_code }: Check, permitted_skips: readonly SkipReason[]): boolean {
  return reason_code !== '' && permitted_skips.includes(reason_code)
}

function verdictOf(checks: readonly Check[], permitted_skips: readonly SkipReason[]): Verdict {
  if (checks.some((check) => check.result === 'fail')) return 'failed'
  const skipped = checks.filter((check) => check.result === 'skipped')
  if (skipped.length === 0) return 'verified'
  return skipped.every((check) => isPermitted(check, permitted_skips)) ? 'partial' : 'incomplete'
}
