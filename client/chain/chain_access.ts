/** Opens the client's own view of Solana, asks its nodes, retries reads, and explains rejections and failures. */

import {
  type AccountMeta,
  AccountRole,
  type AccountSignerMeta,
  type Address,
  createKeyPairSignerFromPrivateKeyBytes,
  createSolanaRpcFromTransport,
  getBase64Encoder,
  getSolanaErrorFromJsonRpcError,
  type Instruction,
  isSolanaError,
  type KeyPairSigner,
  type Rpc,
  type RpcTransport,
  SOLANA_ERROR__RPC__TRANSPORT_HTTP_ERROR,
  SolanaError,
  type SolanaRpcApi,
  type TransactionSigner,
} from '@solana/kit'
import { askJsonRpc, BadStatus, NoAnswer, notOfANode } from '../../protocol/ask_bounded'
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import type { VaultInstruction } from '../../protocol/vault/instruction'
import { NODE_CALL_MS, NODE_READ_ATTEMPTS_MAX, NODE_READ_WAIT_FIRST_MS, NODE_TIMEOUTS_MAX } from '../limits'
import { printable } from '../verify/transcript'

/** A node of the client's choice; the venue is never asked about the chain. */
export type ChainNode = { rpc: Rpc<SolanaRpcApi>; rpc_url: string }
/** The node that is asked and sent to, and others whose answers are compared with its. */
export type ChainReader = ChainNode & { others: readonly ChainNode[] }
/** `payer` pays fees, rent and bonds, and owns the trader's token accounts. */
export type ChainAccess = ChainReader & { payer: KeyPairSigner; rehearsal?: Rehearsal }
/** A node simulates the transaction instead of sending it; `NotSent` is thrown then. `lamports`: its cost to the payer. */
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

type Form = (value: unknown) => boolean
type Fields = Readonly<Record<string, unknown>>

const isText: Form = (value) => typeof value === 'string'
const isCount: Form = (value) => Number.isSafeInteger(value) && Number(value) >= 0
/** `err` of a transaction: null, or an error of any form, which is printed only. */
const isAny: Form = (value) => value !== undefined
const nullOr =
  (form: Form): Form =>
  (value) =>
    value === null || form(value)
/** A field that some versions of a node leave out. */
const ifAny =
  (form: Form): Form =>
  (value) =>
    value === undefined || value === null || form(value)
const listOf =
  (form: Form, length?: number): Form =>
  (value) =>
    Array.isArray(value) && (length === undefined || value.length === length) && value.every(form)
const withFields =
  (fields: Readonly<Record<string, Form>>): Form =>
  (value) =>
    typeof value === 'object' &&
    value !== null &&
    Object.entries(fields).every(([name, form]) => form((value as Fields)[name]))
const inContext = (form: Form): Form => withFields({ context: withFields({ slot: isCount }), value: form })

/** `[text, "base64"]`. */
const isBase64: Form = (value) => {
  const text: unknown = Array.isArray(value) ? value[0] : undefined
  return typeof text === 'string' && text.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(text)
}
const isUnits: Form = (value) => typeof value === 'string' && /^[0-9]{1,20}$/.test(value)
const isLevel: Form = (value) => value === 'processed' || value === 'confirmed' || value === 'finalized'
const isAccount = withFields({ owner: isText, data: isBase64 })
const isInner = withFields({ programIdIndex: isCount, data: isText })
const isMeta = withFields({
  err: isAny,
  innerInstructions: ifAny(listOf(withFields({ index: isCount, instructions: listOf(isInner) }))),
  loadedAddresses: ifAny(withFields({ writable: listOf(isText), readonly: listOf(isText) })),
})

/** By method (Solana JSON-RPC, accounts and transactions in base64). @param asked the first parameter */
const FORMS: Readonly<Record<string, (asked: unknown) => Form>> = {
  getAccountInfo: () => inContext(nullOr(isAccount)),
  getBalance: () => inContext(isCount),
  getBlockHeight: () => isCount,
  getBlockTime: () => nullOr(isCount),
  getGenesisHash: () => isText,
  getLatestBlockhash: () => inContext(withFields({ blockhash: isText, lastValidBlockHeight: isCount })),
  getMinimumBalanceForRentExemption: () => isCount,
  getMultipleAccounts: (asked) => inContext(listOf(nullOr(isAccount), lengthOf(asked))),
  getProgramAccounts: () => listOf(withFields({ pubkey: isText, account: isAccount })),
  getSignatureStatuses: (asked) =>
    inContext(listOf(nullOr(withFields({ err: isAny, confirmationStatus: isLevel })), lengthOf(asked))),
  getSignaturesForAddress: () => listOf(withFields({ signature: isText, slot: isCount, err: isAny })),
  getSlot: () => isCount,
  getTokenAccountBalance: () => inContext(withFields({ amount: isUnits })),
  getTransaction: () => nullOr(withFields({ transaction: isBase64, meta: nullOr(isMeta) })),
  requestAirdrop: () => isText,
  sendTransaction: () => isText,
  simulateTransaction: () => inContext(withFields({ err: isAny })),
  tacit_mintTo: () => isText,
}
const lengthOf = (asked: unknown): number => (Array.isArray(asked) ? asked.length : 0)

/** Whether the result has the form that the method gives; of a method without a form any has. */
function hasForm({ method, params }: { method: string; params: unknown }, result: unknown): boolean {
  const form = Object.hasOwn(FORMS, method) ? FORMS[method] : undefined
  return form === undefined || form(Array.isArray(params) ? params[0] : undefined)(result)
}

/** The node rejects a call with a code that Solana does not define. */
class NodeRefused extends Error {
  override readonly name = 'NodeRefused'
}

type Call = { method: string; params: unknown }

/** @throws NoAnswer, SolanaError for a status of HTTP, SyntaxError for an answer of another form, NodeRefused */
export async function askNode(url: string, payload: Call, timeout_ms: number) {
  const answer = await askJsonRpc(url, payload, timeout_ms).catch((error: unknown) => {
    if (!(error instanceof BadStatus)) throw error
    const { status: statusCode, headers } = error
    throw new SolanaError(SOLANA_ERROR__RPC__TRANSPORT_HTTP_ERROR, {
      headers,
      message: String(statusCode),
      statusCode,
    })
  })
  if (!('error' in answer)) {
    if (!hasForm(payload, answer.result)) throw notOfANode()
    return answer
  }
  const { code, message } = Object(answer.error)
  if (!Number.isSafeInteger(code) || typeof message !== 'string') throw notOfANode()
  if (!isKnown(answer.error)) throw new NodeRefused(`${printable(message)} (${code})`)
  return answer
}

/** The library has no sentence for another code, and fails over it. */
function isKnown(error: unknown): boolean {
  try {
    return getSolanaErrorFromJsonRpcError(error).message !== ''
  } catch {
    return false
  }
}
