/** One look at a vault without a venue: where it is, what its config says, and the roots, at finalized. */
import { getBase58Encoder } from '@solana/kit'
import type { ChainPort, VaultConfig } from '../ports'
import { chainAddresses } from './chain_client'
import { readConfig } from './read_config'
import { RpcPool } from './rpc_pool'

const TIMEOUT_MS = 10_000

export type Deployment = Pick<ChainPort, 'genesis_hash' | 'program_id' | 'config_account'> & {
  config: VaultConfig
}

/** @throws VaultUnreadable when the program has no vault; ChainUnavailable when no endpoint answers */
export async function readDeployment(
  rpc_urls: readonly string[],
  program_id: Uint8Array,
): Promise<Deployment> {
  const rpc = new RpcPool(rpc_urls, TIMEOUT_MS)
  try {
    const addresses = chainAddresses(program_id)
    const genesis = await rpc.read((endpoint, abortSignal) => endpoint.getGenesisHash().send({ abortSignal }))
    return {
      genesis_hash: new Uint8Array(getBase58Encoder().encode(genesis)),
      program_id,
      config_account: addresses.vault.config,
      config: await readConfig({ rpc, ...addresses }),
    }
  } finally {
    rpc.close()
  }
}
