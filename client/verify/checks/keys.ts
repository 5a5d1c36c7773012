/** Checks 2.4, 2.5, 6.4 and 6.5: the source of the app's keys and the contract that governs it. */
import { toHex } from '../../../protocol/bytes'
import { readKeyProvider } from '../../../protocol/tdx/mr_config_id'
import type { KmsPolicy } from '../policy'
import { Refused, requireThat } from '../transcript'
import {
  established,
  type RunCheck,
  type RunMachineCheck,
  Skipped,
  type VerificationCase,
} from './verification_case'

/** Check 2.4: the app id, which without a KMS the host chooses. */
export const checkAppId: RunMachineCheck = (verification) => {
  const { app_id } = established(verification, 'claims')
  const { app_ids } = verification.policy
  const measured = toHex(app_id)
  if (app_ids === undefined) throw new Skipped('app_unpinned', `; measured: ${measured}`)
  requireThat(app_ids.includes(measured), `app id ${measured} is not pinned`)
  verification.established.pinned_app = app_id
  return { app_id: measured }
}

/** Check 2.5: a provider's name says nothing about who runs it, so name and id are compared. */
export const checkKeyProvider: RunMachineCheck = (verification) => {
  const { key_providers } = verification.policy
  const measured = readKeyProvider(established(verification, 'claims'))
  if (measured === undefined) throw new Refused('the measured key provider is malformed')
  const { name, id } = measured
  if (key_providers === undefined)
    throw new Skipped('key_provider_unpinned', `; measured: ${JSON.stringify(measured)}`)
  const pinned = key_providers.some((one) => one.name === name && one.id === id)
  requireThat(pinned, `key provider ${JSON.stringify(measured)} is not pinned`)
  verification.established.pinned_key_provider = measured
  return { name, id }
}

/**
 * The contract is the one at the app id, and it governs only keys of that contract's KMS: without both pins it says nothing.
 * @throws Skipped without a contract in the policy; Refused when the keys come from elsewhere
 */
function governedBy(verification: VerificationCase): KmsPolicy {
  const { kms } = verification.policy
  if (kms === undefined) {
    const measured = readKeyProvider(established(verification, 'claims'))
    if (measured?.name === 'kms') throw new Skipped('kms_without_contract')
    throw new Skipped('keys_without_kms', ` (key provider ${measured?.name ?? 'unreadable'})`)
  }
  established(verification, 'pinned_app')
  const { name } = established(verification, 'pinned_key_provider')
  requireThat(name === 'kms', `the policy names a KMS contract, and the keys come from ${name}`)
  return kms
}

/** Check 6.4: the contract that governs the app's keys allows the measured manifest. */
export const checkKms: RunCheck = (verification) => {
  const { bundle } = verification
  governedBy(verification)
  requireThat(bundle.kms_allowed !== null, `the KMS contract could not be read: ${bundle.missing.kms ?? ''}`)
  requireThat(bundle.kms_allowed === true, 'the KMS contract does not allow the measured manifest')
  return { contract: `0x${toHex(established(verification, 'pinned_app'))}` }
}

/** Check 6.5: the owner can allow another build; a timelock gives users time to see it. */
export const checkKmsOwner: RunCheck = (verification) => {
  const { bundle } = verification
  const { owners, timelock_min_s } = governedBy(verification)
  if (owners === undefined) throw new Skipped('kms_owner_unpinned')
  const { kms_contract } = bundle
  if (kms_contract === null)
    throw new Refused(`the owner of the KMS contract could not be read: ${bundle.missing.kms_owner ?? ''}`)
  const { owner, min_delay_s } = kms_contract
  requireThat(owners.includes(owner), `${owner} owns the KMS contract`)
  if (timelock_min_s === undefined) return { owner }
  requireThat(min_delay_s !== null, 'the owner of the KMS contract is no timelock')
  requireThat(
    min_delay_s >= timelock_min_s,
    `the timelock waits ${min_delay_s} s, the policy asks for ${timelock_min_s} s`,
  )
  return { owner, min_delay_s: String(min_delay_s) }
}
