/** Check 6.2: the vault is open, and no change is announced that the policy does not expect. */
import { encodeBase58 } from '../../../protocol/base58'
import type { ConfigAccount } from '../../../protocol/vault/accounts'
import type { PendingAction } from '../policy'
import { Refused, requireThat } from '../refused'
import { chainOf } from './settlement_signer'
import { established, type RunCheck } from './verification_case'

export const checkVaultState: RunCheck = (verification) => {
  const { policy } = chainOf(verification)
  const config = established(verification, 'config')
  requireThat(!config.frozen, 'the vault is frozen: it only pays out')
  requireThat(!config.paused || policy.paused_allowed, 'the vault is paused')
  const pending = pendingActions(config)
  const unexpected = pending.find((action) => !policy.pending_actions.includes(action))
  if (unexpected !== undefined) throw new Refused(`the administrator has announced ${unexpected}`)
  return {
    admin: encodeBase58(config.admin),
    paused: String(config.paused),
    pending: pending.join(' ') || 'none',
    exit_delay_s: String(config.exit_delay_s),
  }
}

function pendingActions(config: ConfigAccount): PendingAction[] {
  const pending: PendingAction[] = []
  if (config.pending_signer !== undefined) pending.push('rotate_signer')
  if (config.pending_admin !== undefined) pending.push('set_admin')
  if (config.pending_restore_at_s !== undefined) pending.push('authorize_restore')
  return pending
}
