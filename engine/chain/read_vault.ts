/** Reads config, note tree and known states of the vault in one request, all of one slot. */
import type { Commitment } from '@solana/kit'
import {
  type ConfigAccount,
  decodeConfig,
  decodeRing,
  decodeTree,
  type RingAccount,
  type TreeAccount,
} from '../../protocol/vault/accounts'
import type { ChainClient } from './chain_client'

export type VaultSnapshot = { slot: number; config: ConfigAccount; tree: TreeAccount; ring: RingAccount }

/** The vault's accounts are absent or are not what the program keeps: wrong program id or wrong cluster. */
export class VaultUnreadable extends Error {}
/** The program has no vault yet: `initialize` has not landed. */
export class VaultAbsent extends VaultUnreadable {}

/**
 * @param slot_min a node that has not reached this slot is asked again, or another one is
 * @throws VaultUnreadable, ChainUnavailable
 */
export async function readVault(
  { rpc, address }: Pick<ChainClient, 'rpc' | 'address'>,
  commitment: Commitment,
  slot_min = 0,
): Promise<VaultSnapshot> {
  const addresses = [address.config, address.tree, address.ring]
  const config = { commitment, encoding: 'base64', minContextSlot: BigInt(slot_min) } as const
  const { context, value } = await rpc.read((endpoint, abortSignal) =>
    endpoint.getMultipleAccounts(addresses, config).send({ abortSignal }),
  )
  const data = value.map((account) => {
    if (account?.owner !== address.program) throw new VaultAbsent('the vault does not exist at this program')
    return new Uint8Array(Buffer.from(account.data[0], 'base64'))
  })
  const decoded = { config: decodeConfig(data[0]!), tree: decodeTree(data[1]!), ring: decodeRing(data[2]!) }
  const { config: vault, tree, ring } = decoded
  if (!vault || !tree || !ring) throw new VaultUnreadable('the vault has an unknown layout')
  return { slot: Number(context.slot), config: vault, tree, ring }
}
