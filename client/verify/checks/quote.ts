/** Checks 1.1 to 1.6: collateral, quote, platform, machine, processor features and kind of enclave. */
import { fromAnyHex, fromHex, isZero, toHex } from '../../../protocol/bytes'
import { onlyIntel, openCollateral } from '../tdx/collateral'
import { requireMachine, verifyGenuine } from '../tdx/genuine_quote'
import { requirePlatform } from '../tdx/platform'
import { Refused, requireThat } from '../transcript'
import { established, type RunMachineCheck, Skipped } from './verification_case'

/** Check 1.1: the collateral is signed in its roles under a trusted root, and current. */
export const checkCollateral: RunMachineCheck = async (verification) => {
  const { bundle, roots, now_ms } = verification
  if (bundle.collateral === null)
    throw new Refused(`it could not be had: ${bundle.missing.collateral ?? 'none was recorded'}`)
  const opened = await openCollateral(bundle.collateral, roots, now_ms)
  verification.established.collateral = opened
  const next_update_ms = Math.min(
    opened.tcb_info.next_update_ms,
    opened.qe_identity.next_update_ms,
    opened.root_list.next_update_ms,
    opened.pck_list.next_update_ms,
  )
  return {
    root: onlyIntel(roots) ? 'Intel SGX Root CA' : `given by the policy: ${opened.root.common_name}`,
    valid_until: new Date(next_update_ms).toISOString(),
    revoked_pcks: String(opened.pck_list.revoked.size),
  }
}

/** Check 1.2: the quote is genuine. */
export const checkQuote: RunMachineCheck = async (verification) => {
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

/** Check 1.3: platform, TDX module and quoting enclave are as current as the policy demands. */
export const checkPlatform: RunMachineCheck = (verification) => {
  const genuine = established(verification, 'genuine')
  const collateral = established(verification, 'collateral')
  // Check 7.1 judges the machine.
  const { ppids: _ppids, ...policy } = verification.policy
  const { status, tcb_date, advisories } = requirePlatform(genuine, collateral, policy)
  return {
    tcb_status: status,
    tcb_date,
    advisories: advisories.join(' ') || 'none',
    tcb_evaluation_number: String(collateral.tcb_info.evaluation_number),
  }
}

/** Check 1.4: the trust domain runs without debugging and without a service TD. */
export const checkMachine: RunMachineCheck = (verification) => {
  const { report } = established(verification, 'genuine').quote
  requireMachine(report)
  return { td_attributes: toHex(report.td_attributes), xfam: toHex(report.xfam) }
}

/** Check 1.5: a feature that the guest does not expect, such as AMX, has state that another build may leave behind. */
export const checkXfam: RunMachineCheck = (verification) => {
  const { xfam } = established(verification, 'genuine').quote.report
  const { xfam_mask } = verification.policy
  if (xfam_mask === undefined) throw new Skipped('xfam_unpinned', `; XFAM is ${toHex(xfam)}`)
  const mask = fromHex(xfam_mask, xfam.length)!
  const surplus = xfam.map((byte, at) => byte & ~mask[at]!)
  requireThat(isZero(surplus), `XFAM has bits that the policy does not name: ${toHex(surplus)}`)
  return { xfam: toHex(xfam), mask: xfam_mask }
}

/**
 * Check 1.6: a venue on a simulated enclave says so, and only a policy that names its root accepts it; a venue that says it
 * runs on hardware has a quote under Intel's root. The quote's root decides: the statement can only make a venue fail.
 */
export const checkEnclave: RunMachineCheck = (verification) => {
  // Venues and bundles before this field state nothing.
  const { enclave } = verification.bundle.attestation as { enclave?: string }
  const { policy, roots } = verification
  if (enclave === undefined) return { enclave: 'not stated' }
  requireThat(
    enclave === 'dstack' || enclave === 'development',
    'the venue states an unknown kind of enclave',
  )
  requireThat(
    enclave !== 'development' || (policy.roots_pem !== undefined && !onlyIntel(roots)),
    'the venue runs on a simulated enclave: name its root in the policy to accept it',
  )
  requireThat(
    enclave !== 'dstack' || onlyIntel(roots),
    "the venue states that it runs on hardware, under a root that is not Intel's",
  )
  return { enclave }
}
