/** Checks 6.1 to 6.3, 6.6 and 6.7: settlement signer, vault, program, exit delay and administrator. */
import { decodeBase58, encodeBase58 } from '../../../protocol/base58'
import { type BindingBody, venueId } from '../../../protocol/bodies/statements'
import { equalBytes, toHex } from '../../../protocol/bytes'
import { type ConfigAccount, decodeConfig } from '../../../protocol/vault/accounts'
import { vaultAddresses } from '../../../protocol/vault/addresses'
import { CHAIN_LAG_SLOTS_MAX } from '../../limits'
import { LOADER_V3 } from '../collect/collect_chain'
import type { ChainRecord } from '../evidence_bundle'
import { decodeBase64 } from '../json_document'
import type { ChainPolicy, PendingAction } from '../policy'
import { Refused, requireThat } from '../transcript'
import { established, type RunCheck, Skipped, type VerificationCase } from './verification_case'

/** Check 6.1: the vault at the pinned program accepts this settlement key, in this epoch and generation. */
export const checkSettlementSigner: RunCheck = (verification) => {
  const { info } = verification.bundle
  const binding = established(verification, 'binding')
  requireThat(binding.epoch > 0n, 'epoch 0 is of no node that leads')
  const { config, chain } = vaultOf(verification, binding)
  const { generation, epoch, settlement_signer } = config
  const signer = encodeBase58(settlement_signer)
  requireThat(signer === info.tee_pubkey, 'the vault accepts another settlement key')
  requireThat(BigInt(epoch) === binding.epoch, 'the vault is in another epoch')
  const measured = established(verification, 'claims').compose_hash
  requireThat(equalBytes(config.compose_hash, measured), 'the epoch was opened by another build')
  verification.established.config = config
  return {
    config_account: info.config_account,
    settlement_signer: signer,
    epoch: String(epoch),
    generation: String(generation),
    compose_hash: toHex(config.compose_hash),
    read_at_slot: String(chain.slot),
  }
}

/**
 * Check 6.1 of a node that follows: of no epoch, so that nothing it signs is of one, and of the vault and venue of the node
 * that leads, which is judged by all checks but those of a connection.
 */
export const checkFollowing: RunCheck = (verification) => {
  const { info, leader } = verification.bundle
  const binding = established(verification, 'binding')
  requireThat(binding.epoch === 0n, 'the node is of an epoch')
  if (leader === null) throw new Refused('nothing of the leading node was recorded')
  requireThat(leader.info.venue === info.venue, 'the leading node is of another venue')
  const { config, chain } = vaultOf(verification, binding)
  verification.established.config = config
  return { config_account: info.config_account, read_at_slot: String(chain.slot) }
}

/** The vault of the binding's venue. @throws Skipped, Refused */
function vaultOf(
  verification: VerificationCase,
  binding: BindingBody,
): { config: ConfigAccount; chain: ChainRecord } {
  const { chain, policy } = chainOf(verification)
  const { info } = verification.bundle
  const program_id = decodeBase58(policy.program_id, 32)!
  const genesis_hash = decodeBase58(chain.genesis_hash, 32)
  if (genesis_hash === undefined) throw new Refused('the genesis hash is malformed')
  const config_account = vaultAddresses(program_id).config
  requireThat(
    policy.genesis_hash === undefined || policy.genesis_hash === chain.genesis_hash,
    'the chain is another cluster than the pinned one',
  )
  requireThat(info.genesis_hash === chain.genesis_hash, 'the venue settles on another cluster')
  requireThat(info.program_id === policy.program_id, 'the venue settles with another program')
  requireThat(info.config_account === encodeBase58(config_account), 'the venue settles in another vault')
  requireThat(chain.config.owner === policy.program_id, 'the vault is not owned by the pinned program')
  requireThat(
    BigInt(chain.slot + CHAIN_LAG_SLOTS_MAX) >= binding.slot,
    'the chain was read at an older slot than the venue states',
  )
  const config = decodeConfig(decodeBase64(chain.config.data))
  if (config === undefined) throw new Refused('the vault account is malformed')
  const { generation } = config
  requireThat(generation === info.generation, 'the vault is in another generation')
  const venue = venueId({ genesis_hash, program_id, config_account, generation })
  requireThat(equalBytes(venue, binding.venue), 'the venue id is of another vault')
  requireThat(equalBytes(venue, config.venue), 'the vault was initialized for another cluster')
  return { config, chain }
}

/** @throws Skipped when the policy names no chain; Refused when it does and the chain was not read. */
export function chainOf({ bundle, policy }: VerificationCase): { chain: ChainRecord; policy: ChainPolicy } {
  if (policy.chain === undefined) throw new Skipped('chain_unnamed')
  if (bundle.chain === null)
    throw new Refused(`the chain could not be read: ${bundle.missing.chain ?? 'nothing was recorded'}`)
  return { chain: bundle.chain, policy: policy.chain }
}

/** Check 6.2: the vault is open, and every announced change is one that the policy expects. */
export const checkVaultState: RunCheck = (verification) => {
  const { policy } = chainOf(verification)
  const config = established(verification, 'config')
  requireThat(!config.frozen, 'the vault is frozen: it only pays what is queued')
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
  if (config.pending_admin !== undefined) pending.push('set_admin')
  if (config.pending_restore_at_s !== 0) pending.push('authorize_restore')
  return pending
}

/** Check 6.3: the vault program is the expected one, and only an expected authority can replace it. */
export const checkProgram: RunCheck = (verification) => {
  const { chain, policy } = chainOf(verification)
  const { program, program_data } = chain
  const { upgrade_authority, sha256 } = program_data
  requireThat(program.owner === LOADER_V3, 'the program is not of the upgradeable loader')
  requireThat(program_data.owner === LOADER_V3, "the program's data is not of the upgradeable loader")
  requireThat(
    upgrade_authority === null || policy.upgrade_authorities.includes(upgrade_authority),
    `${upgrade_authority} may replace the program`,
  )
  requireThat(
    policy.program_sha256 === undefined || policy.program_sha256 === sha256,
    'the program is another build than the pinned one',
  )
  // A pinned address alone identifies a program only when no authority can replace it.
  requireThat(
    policy.program_sha256 !== undefined || upgrade_authority === null,
    'a program that can be replaced needs a pinned hash',
  )
  return { program_sha256: sha256, upgrade_authority: upgrade_authority ?? 'none: it can never change' }
}

/** Check 6.6: an announced change takes effect after twice this delay, in which users can leave. */
export const checkExitDelay: RunCheck = (verification) => {
  const { policy } = chainOf(verification)
  const config = established(verification, 'config')
  const { exit_delay_s } = verification.bundle.info
  requireThat(exit_delay_s === config.exit_delay_s, 'the venue states another exit delay than the vault has')
  const minimum = policy.exit_delay_min_s
  if (minimum === undefined) throw new Skipped('exit_delay_unpinned', `; it is ${exit_delay_s} s`)
  requireThat(
    exit_delay_s >= minimum,
    `the exit delay is ${exit_delay_s} s, the policy asks for ${minimum} s`,
  )
  return { exit_delay_s: String(exit_delay_s) }
}

/** Check 6.7: key or multisig that administers the vault. */
export const checkAdmin: RunCheck = (verification) => {
  const { policy } = chainOf(verification)
  const admin = encodeBase58(established(verification, 'config').admin)
  if (policy.admins === undefined) throw new Skipped('admin_unpinned', `; it is ${admin}`)
  requireThat(policy.admins.includes(admin), `${admin} administers the vault`)
  return { admin }
}
