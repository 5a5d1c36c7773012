/** The admin's announcement on chain that a venue may begin from the chain alone. */

import { readDeployment } from '../../../engine/chain/client/read_vault'
import { publicKeyOf } from '../../../protocol/sign'
import { authorizeRestoreInstruction } from '../../../protocol/vault/admin'
import type { OpenedChain } from '../../../sandbox/chain/open_embedded_chain'
import { administerVault } from '../vault/administer_vault'

/** Resolves once it is finalized, with the seconds until it is effective: a quarter of the exit delay. */
export async function announceRestore(chain: OpenedChain): Promise<number> {
  const { admin_seed, url } = chain
  const fields = { program: chain.program_id!, admin: publicKeyOf(admin_seed) }
  const instruction = authorizeRestoreInstruction({ ...fields, action: 'announce' })
  await administerVault([url], [admin_seed], instruction, 0n)
  const { config } = await readDeployment([url], fields.program)
  return Math.ceil(config.exit_delay_s / 4)
}
