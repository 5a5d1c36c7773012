/** Check 3.2: the manifest's text is the measured one and passes the linter. */
import { equalBytes, utf8 } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import { lintManifest } from '../manifest/lint_manifest'
import { Refused, requireThat } from '../refused'
import { established, type RunCheck, Skipped } from './verification_case'

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
