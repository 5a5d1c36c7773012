/** `/GetKey`: 32 secret bytes derived from the app's root key and a path, the same on every boot of the app. */
import { fromHex } from '../../protocol/bytes'
import { AgentFailure, callAgent } from './call_agent'

/**
 * The path alone decides the bytes (dstack guest API v0: purpose and algorithm do not enter the derivation, they only
 * label the signature chain). @throws AgentFailure, which never carries the answer.
 */
export async function getKey(socket: string, path: string, time_limit_ms: number): Promise<Uint8Array> {
  const answer = await callAgent(
    socket,
    'GetKey',
    { path, purpose: 'tacit', algorithm: 'ed25519' },
    time_limit_ms,
  )
  const { key } = answer
  const bytes = typeof key === 'string' ? fromHex(key, 32) : undefined
  if (bytes === undefined) throw new AgentFailure('GetKey', 'shape')
  return bytes
}
