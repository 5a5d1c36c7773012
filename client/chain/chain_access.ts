/** The client's own view of Solana: it never asks the venue what the chain says. */
import {
  type Address,
  createKeyPairSignerFromPrivateKeyBytes,
  createSolanaRpc,
  getAddressDecoder,
  type KeyPairSigner,
  type Rpc,
  type SolanaRpcApi,
} from '@solana/kit'

/** Reads need nobody's key. */
export type ChainReader = { rpc: Rpc<SolanaRpcApi>; rpc_url: string }
export type ChainAccess = ChainReader & { payer: KeyPairSigner }

export function openChainReader(rpc_url: string): ChainReader {
  return { rpc: createSolanaRpc(rpc_url), rpc_url }
}

/** @param payer_seed 32-byte seed of the key that pays fees and owns the trader's token accounts. */
export async function openChainAccess(rpc_url: string, payer_seed: Uint8Array): Promise<ChainAccess> {
  const payer = await createKeyPairSignerFromPrivateKeyBytes(new Uint8Array(payer_seed))
  return { rpc: createSolanaRpc(rpc_url), rpc_url, payer }
}

/** The same payer on another endpoint. */
export function reopenChain({ payer }: ChainAccess, rpc_url: string): ChainAccess {
  return { rpc: createSolanaRpc(rpc_url), rpc_url, payer }
}

export function addressOf(bytes: Uint8Array): Address {
  return getAddressDecoder().decode(bytes)
}
