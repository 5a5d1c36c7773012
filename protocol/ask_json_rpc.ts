/** Asks a JSON-RPC endpoint over HTTP: what it answers is bounded, of that form, and from the address that was named. */
import { type AskInit, askBounded } from './ask_bounded'
import { RPC_ANSWER_BYTES_MAX } from './limits'

/** The endpoint answers with a status of HTTP that is no success. */
export class BadStatus extends Error {
  override readonly name = 'BadStatus'
  constructor(
    readonly status: number,
    readonly headers: Headers,
  ) {
    super(`answered HTTP ${status}`)
  }
}

/**
 * @param signal ends the request before its time
 * @throws NoAnswer, BadStatus, SyntaxError for an answer that is none of JSON-RPC
 */
export async function askJsonRpc(
  url: string,
  payload: unknown,
  timeout_ms: number,
  signal?: AbortSignal,
): Promise<{ result: unknown } | { error: unknown }> {
  const body = JSON.stringify(payload, (_, value) => (typeof value === 'bigint' ? exactNumber(value) : value))
  const ask = (init: AskInit) =>
    fetch(url, {
      ...init,
      signal: signal === undefined ? init.signal : AbortSignal.any([init.signal, signal]),
      method: 'POST',
      headers: { ...init.headers, 'content-type': 'application/json' },
      body,
    })
  const { ok, status, headers, bytes } = await askBounded(ask, RPC_ANSWER_BYTES_MAX, timeout_ms)
  if (!ok) throw new BadStatus(status, headers)
  return parsed(new TextDecoder().decode(bytes))
}

/** @throws RangeError for an integer that a double rounds */
function exactNumber(value: bigint): number {
  if (!Number.isSafeInteger(Number(value))) throw new RangeError('the number is too large for a node')
  return Number(value)
}

export const notOfANode = (): SyntaxError => new SyntaxError('the answer is not one of JSON-RPC')

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
