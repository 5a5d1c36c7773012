/** Check 3.1: the measured manifest is one the policy pins. */
import { toHex } from '../../../protocol/bytes'
import { requireThat } from '../refused'
import { established, type RunCheck, Skipped } from './verification_case'

export const checkComposeHash: RunCheck = (verification) => {
  const { bundle, policy } = verification
  const compose_hash = toHex(established(verification, 'claims').compose_hash)
  requireThat(bundle.info.compose_hash === compose_hash, 'the venue states another manifest than it measured')
  if (policy.compose_hashes.length === 0)
    throw new Skipped(`the policy pins no manifest; measured: ${compose_hash}`)
  requireThat(policy.compose_hashes.includes(compose_hash), `measured manifest ${compose_hash} is not pinned`)
  return { compose_hash }
}
