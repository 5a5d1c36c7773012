/** Check 6.4: the contract that hands out the app's keys allows the measured manifest. */
import { requireThat } from '../refused'
import { established, type RunCheck, Skipped } from './verification_case'

export const checkKms: RunCheck = (verification) => {
  const { bundle, policy } = verification
  const { key_provider } = established(verification, 'claims')
  const name = providerName(new TextDecoder().decode(key_provider))
  if (name !== 'kms') throw new Skipped(`the app keys come from no KMS (key provider ${name})`)
  if (policy.kms === undefined) throw new Skipped('the policy names no KMS contract to ask')
  requireThat(bundle.kms_allowed !== null, `the KMS contract could not be read: ${bundle.missing.kms ?? ''}`)
  requireThat(bundle.kms_allowed === true, 'the KMS contract does not allow the measured manifest')
  return { contract: `0x${bundle.info.app_id}` }
}

function providerName(text: string): string {
  try {
    return String((JSON.parse(text) as { name?: unknown } | null)?.name)
  } catch {
    return 'unreadable'
  }
}
