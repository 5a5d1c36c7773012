/** Asks a Solana node, and names what it refuses. */
import {
  getSolanaErrorFromJsonRpcError,
  SOLANA_ERROR__RPC__TRANSPORT_HTTP_ERROR,
  SolanaError,
} from '@solana/kit'
import { askJsonRpc, BadStatus, notOfANode } from '../../protocol/ask_json_rpc'
import { printable } from '../verify/transcript'

/** The node refuses a call by a code of its own. */
export class NodeRefused extends Error {
  override readonly name = 'NodeRefused'
}

/** @throws NoAnswer, SolanaError for a status of HTTP, SyntaxError for an answer that is none, NodeRefused */
export async function askNode(url: string, payload: unknown, timeout_ms: number): Promise<unknown> {
  const answer = await askJsonRpc(url, payload, timeout_ms).catch((error: unknown) => {
    if (!(error instanceof BadStatus)) throw error
    const { status: statusCode, headers } = error
    throw new SolanaError(SOLANA_ERROR__RPC__TRANSPORT_HTTP_ERROR, {
      headers,
      message: String(statusCode),
      statusCode,
    })
  })
  if (!('error' in answer)) return answer
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
