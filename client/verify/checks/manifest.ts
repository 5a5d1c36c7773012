/** Checks 3.1 and 3.2: the measured manifest. */
import { equalBytes, toHex, utf8 } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import { lintManifest } from '../manifest/lint_manifest'
import { Refused, requireThat } from '../transcript'
import { established, type RunCheck, Skipped } from './verification_case'

/** Check 3.1: the measured manifest is one that the policy pins. */
export const checkComposeHash: RunCheck = (verification) => {
  const { bundle, policy } = verification
  const compose_hash = toHex(established(verification, 'claims').compose_hash)
  requireThat(bundle.info.compose_hash === compose_hash, 'the venue states another manifest than it measured')
  if (policy.compose_hashes.length === 0)
    throw new Skipped(`the policy pins no manifest; measured: ${compose_hash}`)
  requireThat(policy.compose_hashes.includes(compose_hash), `measured manifest ${compose_hash} is not pinned`)
  return { compose_hash }
}

/** Check 3.2: the manifest's text is the measured one and passes the linter. */
export const checkManifest: RunCheck = (verification) => {
  const { bundle, policy } = verification
  const { compose_hash } = established(verification, 'claims')
  if (bundle.app_compose === null) throw new Skipped('the manifest text is not at hand')
  const text = utf8(bundle.app_compose)
  requireThat(equalBytes(sha256(text), compose_hash), 'the manifest text is not the measured one')
  const faults = lintManifest(bundle.app_compose, policy.environment_names)
  if (faults.length > 0) throw new Refused(faults.join('; '))
  return { bytes: String(text.length) }
}
