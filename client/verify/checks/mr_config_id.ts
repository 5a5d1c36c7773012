/** Check 2.3: the commitment to the manifest that stands in the quote itself. */
import { equalBytes } from '../../../protocol/bytes'
import { readMrConfigId } from '../../../protocol/mr_config_id'
import { requireThat } from '../refused'
import { established, type RunCheck, Skipped } from './verification_case'

export const checkMrConfigId: RunCheck = (verification) => {
  const { report } = established(verification, 'genuine').quote
  const { compose_hash } = established(verification, 'claims')
  const config_id = readMrConfigId(report.mr_config_id)
  if (config_id.form === 'none') throw new Skipped('the machine was started without one')
  if (config_id.form === 'other')
    throw new Skipped(`its form ${config_id.tag} hashes facts outside the quote`)
  requireThat(equalBytes(config_id.compose_hash, compose_hash), 'MRCONFIGID names another manifest')
  return { form: 'compose hash' }
}
