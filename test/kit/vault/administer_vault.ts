/** Sends one instruction of the vault's deployer or admin, as the tools do. */
import type { VaultInstruction } from '../../../protocol/vault/instruction'
import { withRpc } from '../../../tools/program/deploy_program'
import { landTransaction } from '../../../tools/program/land_transaction'

/**
 * Resolves with the signature once finalized.
 * @param seeds of all signers; the first one pays
 * @throws Error with the chain's reason; ChainUnavailable
 */
export async function administerVault(
  rpc_urls: readonly string[],
  seeds: readonly [Uint8Array, ...Uint8Array[]],
  instruction: VaultInstruction,
  priority_fee_lamports: bigint,
): Promise<string> {
  return withRpc(rpc_urls, (rpc) =>
    landTransaction(rpc, { seeds, instructions: [instruction], priority_fee_lamports }),
  )
}
