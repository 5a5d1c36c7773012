/** The client's own view of Solana: requests that are retried, and failures explained. */

import {
  type Address,
  createKeyPairSignerFromPrivateKeyBytes,
  createSolanaRpc,
  getAddressDecoder,
  isSolanaError,
  type KeyPairSigner,
  type Rpc,
  SOLANA_ERROR__RPC__TRANSPORT_HTTP_ERROR,
  type SolanaRpcApi,
} from '@solana/kit'
import { NODE_READ_ATTEMPTS_MAX, NODE_READ_WAIT_FIRST_MS } from '../limits'

// Reads again when a node is busy or briefly gone: a whole history takes thousands of reads, and none may be lost.

/** A node that is rate-limiting (429) or failing (5xx); every other answer is an answer. */
export function isPassing(error: unknown): boolean {
  if (isSolanaError(error, SOLANA_ERROR__RPC__TRANSPORT_HTTP_ERROR)) {
    const { statusCode } = error.context
    return statusCode === 429 || statusCode >= 500
  }
  // What fetch throws when there is no connection: a TypeError that names the system's reason, here or as its cause.
  const { code, cause } = error as { code?: unknown; cause?: { code?: unknown } }
  return error instanceof TypeError && typeof (code ?? cause?.code) === 'string'
}

/** Only for reads: asking twice must change nothing. @throws the last failure, after about six seconds in all */
export async function patientRead<T>(read: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await read()
    } catch (error) {
      if (attempt === NODE_READ_ATTEMPTS_MAX || !isPassing(error)) throw error
      await Bun.sleep(NODE_READ_WAIT_FIRST_MS * 2 ** (attempt - 1))
    }
  }
}

// Says in words what is wrong between a command and the node it asks, and what to do.

/** Undefined for what is no failure of a node. */
export function chainFailure(error: unknown, rpc_url: string): string | undefined {
  if (isSolanaError(error, SOLANA_ERROR__RPC__TRANSPORT_HTTP_ERROR)) {
    const { statusCode } = error.context
    const advice =
      statusCode === 429 ? 'it limits you: wait, or ask another' : 'is it a Solana JSON-RPC endpoint?'
    return `the node at ${rpc_url} answers HTTP ${statusCode}: ${advice}`
  }
  if (isSolanaError(error)) return `the node at ${rpc_url} refuses: ${error.message}`
  if (isPassing(error)) return `no answer from ${rpc_url}: check --rpc and the connection, then run it again`
  if (error instanceof SyntaxError) return `${rpc_url} does not answer as a Solana node does: check --rpc`
  return undefined
}

// The client's own view of Solana: it never asks the venue what the chain says.

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
