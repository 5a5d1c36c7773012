/** Check 1.1: the collateral is signed in its roles under a trusted root and current. */
import { Refused } from '../refused'
import { openCollateral } from '../tdx/open_collateral'
import { onlyIntel } from '../tdx/trusted_roots'
import type { RunCheck } from './verification_case'

export const checkCollateral: RunCheck = async (verification) => {
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
