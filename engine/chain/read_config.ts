/** The vault's configuration and roots as the engine reads them: fresh, at finalized. */
import { encodeBase58 } from '../../protocol/base58'
import type { ConfigAccount } from '../../protocol/vault/accounts'
import type { VaultConfig } from '../ports'
import type { ChainClient } from './chain_client'
import { readVault } from './read_vault'

/** @throws VaultUnreadable, ChainUnavailable */
export async function readConfig(client: Pick<ChainClient, 'rpc' | 'address'>): Promise<VaultConfig> {
  const { config, tree } = await readVault(client, 'finalized')
  return {
    admin: config.admin,
    settlement_signer: config.settlement_signer,
    exit_delay_s: config.exit_delay_s,
    epoch: config.epoch,
    boot_nonce: config.boot_nonce,
    generation: config.generation,
    last_batch: config.last_batch,
    journal_seq: config.journal_seq,
    journal_head: config.journal_head,
    spent_root: config.spent_root,
    spent_count: config.spent_count,
    leaf_count: tree.leaf_count,
    note_root: tree.root,
    frozen: config.frozen,
    paused: config.paused,
    pending: pendingOf(config),
  }
}

function pendingOf(config: ConfigAccount): VaultConfig['pending'] {
  const pending: VaultConfig['pending'] = []
  const { pending_signer, pending_admin, pending_restore_at_s, generation } = config
  if (pending_signer) {
    const value = encodeBase58(pending_signer.key)
    pending.push({ action: 'rotate_signer', effective_unix_s: pending_signer.effective_at_s, value })
  }
  if (pending_admin) {
    const value = encodeBase58(pending_admin.key)
    pending.push({ action: 'set_admin', effective_unix_s: pending_admin.effective_at_s, value })
  }
  if (pending_restore_at_s !== undefined) {
    pending.push({
      action: 'authorize_restore',
      effective_unix_s: pending_restore_at_s,
      value: String(generation + 1),
    })
  }
  return pending
}
