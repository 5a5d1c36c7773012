/** Hands signed bytes to every endpoint. Whether they land is read from the chain, never from the answers here. */
import type { ChainClient } from './chain_client'
import { wireText } from './sign_vault_instruction'

/** Resolves with the number of endpoints that took the bytes; never rejects. */
export async function broadcast({ rpc }: Pick<ChainClient, 'rpc'>, wire: Uint8Array): Promise<number> {
  const text = wireText(wire)
  // Rebroadcasting is ours: a node's own retries would outlive the decision to sign again.
  const config = { encoding: 'base64', skipPreflight: true, maxRetries: 0n } as const
  const sent = rpc.endpoints.map((endpoint) =>
    endpoint.sendTransaction(text, config).send({ abortSignal: rpc.signal() }),
  )
  const answers = await Promise.allSettled(sent)
  return answers.filter((answer) => answer.status === 'fulfilled').length
}
