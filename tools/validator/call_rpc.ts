/** One JSON-RPC call with nothing between: what a node says is printed as it says it. */

/** @throws Error with the node's own message */
export async function callRpc<T>(rpc_url: string, method: string, params: unknown[] = []): Promise<T> {
  const answer = await fetch(rpc_url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  })
  const { result, error } = (await answer.json()) as { result: T; error?: { code: number; message: string } }
  if (error !== undefined) throw new Error(`${method}: ${error.message} (${error.code})`)
  return result
}
