/** Asks a Solana node over HTTP: what it answers is bounded, of the form of JSON-RPC, and from the address that was named. */
import {
  getSolanaErrorFromJsonRpcError,
  SOLANA_ERROR__RPC__TRANSPORT_HTTP_ERROR,
  SolanaError,
} from '@solana/kit'
import { type AskInit, askBounded } from '../../protocol/ask_bounded'
import { RPC_ANSWER_BYTES_MAX } from '../limits'
import { printable } from '../verify/transcript'

/** The node refuses a call by a code of its own. */
export class NodeRefused extends Error {
  override readonly name = 'NodeRefused'
}

/** @throws NoAnswer, SolanaError for a status of HTTP, SyntaxError for an answer that is none, NodeRefused */
export async function askNode(url: string, payload: unknown, timeout_ms: number): Promise<unknown> {
  const ask = (init: AskInit) =>
    fetch(url, {
      ...init,
      method: 'POST',
      headers: { ...init.headers, 'content-type': 'application/json' },
      body: JSON.stringify(payload, (_, value) => (typeof value === 'bigint' ? exactNumber(value) : value)),
      // A node that sends its caller elsewhere would have it ask any address that the caller reaches.
      redirect: 'manual',
    })
  const { ok, status, headers, bytes } = await askBounded(ask, RPC_ANSWER_BYTES_MAX, timeout_ms)
  if (!ok)
    throw new SolanaError(SOLANA_ERROR__RPC__TRANSPORT_HTTP_ERROR, {
      headers,
      message: String(status),
      statusCode: status,
    })
  const answer = parsed(new TextDecoder().decode(bytes))
  if (!('error' in answer)) return answer
  const { code, message } = Object(answer.error)
  if (!Number.isSafeInteger(code) || typeof message !== 'string') throw notOfANode()
  if (!isKnown(answer.error)) throw new NodeRefused(`${printable(message)} (${code})`)
  return answer
}

/** @throws RangeError for an integer that a double rounds */
function exactNumber(value: bigint): number {
  if (!Number.isSafeInteger(Number(value))) throw new RangeError('the number is too large for a node')
  return Number(value)
}

const notOfANode = (): SyntaxError => new SyntaxError('the answer is not one of JSON-RPC')

/** An integer that a double rounds is left out, such as the rent epoch of an account: nothing reads a rounded amount. */
function parsed(text: string): { result: unknown } | { error: unknown } {
  let answer: unknown
  try {
    answer = JSON.parse(text, (_, value) =>
      Number.isInteger(value) && !Number.isSafeInteger(value) ? undefined : value,
    )
  } catch {
    // Nested too deeply, too.
    throw notOfANode()
  }
  if (typeof answer !== 'object' || answer === null) throw notOfANode()
  if ('result' in answer || 'error' in answer) return answer
  throw notOfANode()
}

/** The library has no sentence for another code, and fails over it. */
function isKnown(error: unknown): boolean {
  try {
    return getSolanaErrorFromJsonRpcError(error).message !== ''
  } catch {
    return false
  }
}
