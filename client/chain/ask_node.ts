/** Asks a Solana node: the answer has the form of its method, and a rejection has a sentence. */
import {
  getSolanaErrorFromJsonRpcError,
  SOLANA_ERROR__RPC__TRANSPORT_HTTP_ERROR,
  SolanaError,
} from '@solana/kit'
import { askJsonRpc, BadStatus, notOfANode } from '../../protocol/ask_json_rpc'
import { printable } from '../verify/transcript'
import { hasForm } from './answer_forms'

/** The node rejects a call with a code that Solana does not define. */
export class NodeRefused extends Error {
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
