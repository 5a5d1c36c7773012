/** The config account as the judge knows it: places of `README.md`, and who may act. */
import { venueId } from '../../../../protocol/bodies/statements'
import { ACCOUNT_BYTES } from '../../../../protocol/vault/accounts'
import type { VaultAddresses } from '../../../../protocol/vault/addresses'
import { type Call, must, mustBeWritable, mustSign, ownAccount, type Placed, same } from './call'
import { setU64, u64At, wordAt } from './fields'

export const CONFIG = {
  paused: 3,
  frozen: 4,
  mint_count: 6,
  generation: 8,
  epoch: 16,
  last_batch: 24,
  exit_delay_s: 32,
  journal_seq: 40,
  journal_head: 48,
  admin: 80,
  settlement_signer: 112,
  boot_nonce: 144,
  compose_hash: 160,
  epoch_slot: 192,
  commit_seq: 200,
  commit_head: 208,
  pending_admin: 240,
  pending_restore_at_s: 280,
  paused_at_s: 288,
  frozen_at_s: 296,
  venue: 304,
  genesis_hash: 336,
  outage_at_s: 368,
  outage_extra_s: 376,
  spent_count: 384,
  settled_leaf_count: 392,
  tree: 400,
  ring: 432,
  queue: 464,
  frozen_leaf_count: 496,
} as const

export const configOf = (call: Call, account: Placed): Uint8Array =>
  ownAccount(call, account, call.vault.config, 1, ACCOUNT_BYTES.config)

export function writableConfig(call: Call, account: Placed): Uint8Array {
  mustBeWritable(account)
  return configOf(call, account)
}

export const isFrozen = (config: Uint8Array): boolean => config[CONFIG.frozen] !== 0

export function mustRun(config: Uint8Array): void {
  must(!isFrozen(config), 'the vault is frozen')
  must(config[CONFIG.paused] === 0, 'the vault is paused')
}

export function mustBeAdmin(config: Uint8Array, account: Placed): void {
  mustSign(account)
  must(same(account.address, wordAt(config, CONFIG.admin)), 'not the admin')
}

export function mustBeSigner(config: Uint8Array, account: Placed): void {
  mustSign(account)
  must(same(account.address, wordAt(config, CONFIG.settlement_signer)), 'not the settlement signer')
}

export function mustBeEpoch(config: Uint8Array, epoch: bigint): void {
  must(epoch > 0n && epoch === u64At(config, CONFIG.epoch), 'another epoch')
}

/** The journal never goes back, and one position has one head; before the first epoch nothing is stored yet. */
export function mustGoForward(config: Uint8Array, seq: bigint, head: Uint8Array): void {
  const stored = u64At(config, CONFIG.journal_seq)
  must(seq >= stored, 'the journal goes back')
  const conflict = seq === stored && !same(head, wordAt(config, CONFIG.journal_head))
  must(!conflict || u64At(config, CONFIG.epoch) === 0n, 'two heads at one position')
}

/** A newer position is stored, an older one ignored, and one position has one head. */
export function advanceJournal(config: Uint8Array, seq: bigint, head: Uint8Array): void {
  const stored = u64At(config, CONFIG.journal_seq)
  if (seq > stored) setJournal(config, seq, head)
  must(seq !== stored || same(head, wordAt(config, CONFIG.journal_head)), 'two heads at one position')
}

export function setVenue(config: Uint8Array, { program, config: config_account }: VaultAddresses): void {
  const genesis_hash = wordAt(config, CONFIG.genesis_hash)
  const generation = Number(u64At(config, CONFIG.generation))
  config.set(venueId({ genesis_hash, program_id: program, config_account, generation }), CONFIG.venue)
}

export function setJournal(config: Uint8Array, seq: bigint, head: Uint8Array): void {
  setU64(config, CONFIG.journal_seq, seq)
  config.set(head, CONFIG.journal_head)
}
