/** Sends one instruction of the vault's deployer or admin: opening it, mints, pause, restore, keys. */
import { createKeyPairSignerFromPrivateKeyBytes } from '@solana/kit'
import { decodeBase58 } from '../../../protocol/base58'
import type { VaultInstruction } from '../../../protocol/vault/instruction'
import { RpcPool } from '../rpc_pool'
import { toInstruction } from '../vault_instruction'
import { landTransaction } from './land_transaction'
import { programDataOf } from './loader'
import { addressOf } from './plan_deployment'

const TIMEOUT_MS = 30_000

/**
 * Resolves with the signature once finalized; every signer the instruction needs is among `seeds`, the first pays.
 * @throws Error naming what the chain refused; ChainUnavailable
 */
export async function administerVault(
  rpc_urls: readonly string[],
  seeds: readonly [Uint8Array, ...Uint8Array[]],
  instruction: VaultInstruction,
  priority_fee_lamports: bigint,
): Promise<string> {
  const rpc = new RpcPool(rpc_urls, TIMEOUT_MS)
  try {
    const signers = await Promise.all(seeds.map((seed) => createKeyPairSignerFromPrivateKeyBytes(seed)))
    const instructions = [toInstruction(instruction, signers)]
    return await landTransaction(rpc, { payer: signers[0]!, instructions, priority_fee_lamports })
  } finally {
    rpc.close()
  }
}

/** Account that holds the code of a program of the upgradeable loader, 32 bytes. */
export async function programDataAddress(program_id: Uint8Array): Promise<Uint8Array> {
  return decodeBase58(await programDataOf(addressOf(program_id)), 32)!
}
