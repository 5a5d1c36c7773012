/** Defines the context of every chain operation: endpoints, the vault's addresses, the signers and health. */
import type { Address, KeyPairSigner } from '@solana/kit'
import { encodeBase58 } from '../../../protocol/base58'
import type { Quote } from '../../../protocol/tdx/quote'
import { type VaultAddresses, vaultAddresses } from '../../../protocol/vault/addresses'
import type { EpochBound } from '../../../protocol/vault/epochs'
import type { ChainHealth } from './health'
import type { RpcPool } from './rpc_pool'
import type { SlotView } from './slot_view'

/** Priority fee in lamports per transaction, and the balance below which the payer is reported as low. */
export type FeeSettings = {
  percentile: number
  floor_lamports: bigint
  cap_lamports: bigint
  balance_min_lamports: bigint
}

/** A quote that binds the settlement key of this boot, and the event log that leads to its registers. */
export type QuoteEpoch = (
  bound: Omit<EpochBound, 'settlement_signer'>,
) => Promise<{ parsed: Quote; event_log: string }>

export type ChainClient = {
  readonly rpc: RpcPool
  readonly vault: VaultAddresses
  /** The same addresses as text. */
  readonly address: { program: Address; config: Address; tree: Address; ring: Address; queue: Address }
  /** Of the settlement key of this boot. */
  readonly signer: KeyPairSigner
  /** Public key of `signer`, 32 bytes. */
  readonly signer_key: Uint8Array
  /** Signs the opening of an epoch, nothing else. */
  readonly authority: KeyPairSigner
  readonly authority_key: Uint8Array
  readonly quoteEpoch: QuoteEpoch
  /** Pays every fee, and receives the bonds of refused exit requests; signs no settlement. */
  readonly payer: KeyPairSigner
  /** Public key of `payer`, 32 bytes. */
  readonly payer_key: Uint8Array
  readonly fees: FeeSettings
  readonly view: SlotView
  readonly health: ChainHealth
}

/** @param key 32 bytes */
export function addressOf(key: Uint8Array): Address {
  return encodeBase58(key) as Address
}

export function chainAddresses(program_id: Uint8Array): Pick<ChainClient, 'vault' | 'address'> {
  const vault = vaultAddresses(program_id)
  return {
    vault,
    address: {
      program: addressOf(vault.program),
      config: addressOf(vault.config),
      tree: addressOf(vault.tree),
      ring: addressOf(vault.ring),
      queue: addressOf(vault.queue),
    },
  }
}
