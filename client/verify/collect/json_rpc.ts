/** One JSON-RPC 2.0 call over plain fetch; used for Solana and for Ethereum. */
import { Refused } from '../refused'

/** The endpoint did not answer, or not with a result. */
export class RpcUnavailable extends Refused {
  override readonly name = 'RpcUnavailable'
}

export async function callRpc(
  url: string,
  method: string,
  params: unknown[],
  timeout_ms: number,
): Promise<unknown> {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
  const headers = { 'content-type': 'application/json' }
  const signal = AbortSignal.timeout(timeout_ms)
  const answer: unknown = await fetch(url, { method: 'POST', headers, body, signal })
    .then((response) => response.json())
    .catch(() => undefined)
  if (typeof answer !== 'object' || answer === null || !('result' in answer) || 'error' in answer)
    throw new RpcUnavailable(`${method} gave no result`)
  return answer.result
}
