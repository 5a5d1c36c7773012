/** Opens the client's own view of Solana, retries its reads and explains its failures. */

import {
  type AccountMeta,
  AccountRole,
  type AccountSignerMeta,
  type Address,
  createKeyPairSignerFromPrivateKeyBytes,
  createSolanaRpcFromTransport,
  getBase64Encoder,
  type Instruction,
  isSolanaError,
  type KeyPairSigner,
  type Rpc,
  type RpcTransport,
  SOLANA_ERROR__RPC__TRANSPORT_HTTP_ERROR,
  type SolanaRpcApi,
  type TransactionSigner,
} from '@solana/kit'
import { NoAnswer } from '../../protocol/ask_bounded'
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import type { VaultInstruction } from '../../protocol/vault/instruction'
import { NODE_CALL_MS, NODE_READ_ATTEMPTS_MAX, NODE_READ_WAIT_FIRST_MS, NODE_TIMEOUTS_MAX } from '../limits'
import { printable } from '../verify/transcript'
import { askNode, NodeRefused } from './ask_node'

/** A node of the client's choice; the venue is never asked about the chain. */
export type ChainNode = { rpc: Rpc<SolanaRpcApi>; rpc_url: string }
/** The node that is asked and sent to, and others whose answers are compared with its. */
export type ChainReader = ChainNode & { others: readonly ChainNode[] }
/** `payer` pays fees, rent and bonds, and owns the trader's token accounts. */
export type ChainAccess = ChainReader & { payer: KeyPairSigner; rehearsal?: Rehearsal }
/** In place of sending, a node simulates the transaction: `NotSent` is thrown then. `lamports`: what it takes of the payer. */
export type Rehearsal = { lamports: bigint }

/**
 * @param rpc_urls one, or several separated by commas: the first is asked and sent to
 * @param timeout_ms longest wait for each answer of a node
 */
export function openChainReader(rpc_urls: string, timeout_ms = NODE_CALL_MS): ChainReader {
  const [first, ...others] = rpc_urls.split(',').map((rpc_url) => {
    const transport: RpcTransport = async <T>({ payload }: { payload: unknown }) =>
      (await askNode(rpc_url, payload as Parameters<typeof askNode>[1], timeout_ms)) as T
    return { rpc: createSolanaRpcFromTransport(transport), rpc_url }
  })
  return { ...first!, others }
}

/** @param payer_seed 32-byte seed of the payer's key */
export async function openChainAccess(rpc_urls: string, payer_seed: Uint8Array): Promise<ChainAccess> {
  const payer = await createKeyPairSignerFromPrivateKeyBytes(new Uint8Array(payer_seed))
  return { ...openChainReader(rpc_urls), payer }
}

/** The same payer on another node. */
export function reopenChain({ payer }: ChainAccess, rpc_url: string): ChainAccess {
  return { ...openChainReader(rpc_url), payer }
}

export const nodesOf = (chain: ChainReader): readonly ChainNode[] => [chain, ...chain.others]

/**
 * Retries a read; a whole history takes thousands of them. Only for requests that change nothing.
 * @throws the last failure, after about six seconds, or two limits of time
 */
export async function patientRead<T>(read: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await read()
    } catch (error) {
      const attempts_max = isTimeout(error) ? NODE_TIMEOUTS_MAX : NODE_READ_ATTEMPTS_MAX
      if (attempt >= attempts_max || !isPassing(error)) throw error
      await sleep(NODE_READ_WAIT_FIRST_MS * 2 ** (attempt - 1))
    }
  }
}

const isTimeout = (error: unknown): boolean => error instanceof NoAnswer && error.kind === 'time_limit'

/** Whether a retry may help: the node rate-limits (429), fails (5xx), is not reachable or does not answer in time. */
export function isPassing(error: unknown): boolean {
  if (isSolanaError(error, SOLANA_ERROR__RPC__TRANSPORT_HTTP_ERROR)) {
    const { statusCode } = error.context
    return statusCode === 429 || statusCode >= 500
  }
  return error instanceof NoAnswer && error.kind !== 'too_long'
}

/** Names the failure of a node and the next step; undefined for any other error. */
export function chainFailure(error: unknown, rpc_url: string): string | undefined {
  if (isSolanaError(error, SOLANA_ERROR__RPC__TRANSPORT_HTTP_ERROR)) {
    const { statusCode } = error.context
    const advice =
      statusCode === 429 ? 'it limits you: wait, or ask another' : 'is it a Solana JSON-RPC endpoint?'
    return `the node at ${rpc_url} answers HTTP ${statusCode}: ${advice}`
  }
  // Codes of JSON-RPC are negative; another is of a part that does not decode.
  if (isSolanaError(error) && error.context.__code < 0)
    return `the node at ${rpc_url} refuses: ${printable(error.message)}`
  if (error instanceof NodeRefused) return `the node at ${rpc_url} refuses: ${error.message}`
  if (error instanceof NoAnswer && error.kind === 'too_long') return `the node at ${rpc_url} ${error.message}`
  if (isPassing(error)) return `no answer from ${rpc_url}: check --rpc and the connection, then run it again`
  if (error instanceof SyntaxError || isSolanaError(error))
    return `${rpc_url} does not answer as a Solana node does: check --rpc`
  return undefined
}

export function sleep(ms: number): Promise<void> {
  return new Promise((done) => setTimeout(done, ms))
}

export function addressOf(bytes: Uint8Array): Address {
  return encodeBase58(bytes) as Address
}

/** Public key of the payer, 32 bytes. */
export function payerKey({ payer }: ChainAccess): Uint8Array {
  return decodeBase58(payer.address, 32)!
}

/** Account data as JSON-RPC carries it. */
export function bytesOfBase64(text: string): Uint8Array {
  return new Uint8Array(getBase64Encoder().encode(text))
}

/** Converts to the form of @solana/kit. @throws RangeError when `signers` lacks an account that must sign */
export function toInstruction(vault: VaultInstruction, signers: readonly TransactionSigner[]): Instruction {
  const accounts = vault.accounts.map((account): AccountMeta | AccountSignerMeta => {
    const address = addressOf(account.address)
    if (!account.signer)
      return { address, role: account.writable ? AccountRole.WRITABLE : AccountRole.READONLY }
    const signer = signers.find((one) => one.address === address)
    if (!signer) throw new RangeError(`no signer for ${address}`)
    const role = account.writable ? AccountRole.WRITABLE_SIGNER : AccountRole.READONLY_SIGNER
    return { address, signer, role }
  })
  return { programAddress: addressOf(vault.program), accounts, data: vault.data }
}
