/** Defines the context of every chain operation: endpoints, the vault's addresses, the settlement signer and health. */
import { type Address, getAddressDecoder, type KeyPairSigner } from '@solana/kit'
import { type VaultAddresses, vaultAddresses } from '../../../protocol/vault/addresses'
import type { TransactionVersion } from './build_transaction'
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

export type ChainClient = {
  readonly rpc: RpcPool
  readonly vault: VaultAddresses
  /** The same addresses as text. */
  readonly address: { program: Address; config: Address; tree: Address; ring: Address }
  readonly signer: KeyPairSigner
  /** Public key of `signer`, 32 bytes. */
  readonly signer_key: Uint8Array
  readonly fees: FeeSettings
  /** Preferred version of the transactions it signs. */
  readonly transactions: TransactionVersion
  readonly view: SlotView
  readonly health: ChainHealth
}

export function chainAddresses(program_id: Uint8Array): Pick<ChainClient, 'vault' | 'address'> {
  const vault = vaultAddresses(program_id)
  const text = (bytes: Uint8Array): Address => getAddressDecoder().decode(bytes)
  return {
    vault,
    address: {
      program: text(vault.program),
      config: text(vault.config),
      tree: text(vault.tree),
      ring: text(vault.ring),
    },
  }
}
