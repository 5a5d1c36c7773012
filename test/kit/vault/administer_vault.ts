/** Sends one instruction of the vault's deployer or admin, as the tools do. */
import { readDeployment } from '../../../engine/chain/client/read_vault'
import { publicKeyOf } from '../../../protocol/sign'
import { authorizeRestoreInstruction } from '../../../protocol/vault/admin'
import type { VaultInstruction } from '../../../protocol/vault/instruction'
import type { OpenedChain } from '../../../sandbox/chain/open_embedded_chain'
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

/** Resolves once it is finalized, with the seconds until it is effective: a quarter of the exit delay. */
export async function announceRestore(chain: OpenedChain): Promise<number> {
  const { admin_seed, url } = chain
  const fields = { program: chain.program_id!, admin: publicKeyOf(admin_seed) }
  const instruction = authorizeRestoreInstruction({ ...fields, action: 'announce' })
  await administerVault([url], [admin_seed], instruction, 0n)
  const { config } = await readDeployment([url], fields.program)
  return Math.ceil(config.exit_delay_s / 4)
}
