/** Says in words what is wrong between a command and the node it asks, and what to do. */
import { isSolanaError, SOLANA_ERROR__RPC__TRANSPORT_HTTP_ERROR } from '@solana/kit'
import { isPassing } from './patient_read'

/** Undefined for what is no failure of a node. */
export function chainFailure(error: unknown, rpc_url: string): string | undefined {
  if (isSolanaError(error, SOLANA_ERROR__RPC__TRANSPORT_HTTP_ERROR)) {
    const { statusCode } = error.context
    const advice =
      statusCode === 429 ? 'it limits you: wait, or ask another' : 'is it a Solana JSON-RPC endpoint?'
    return `the node at ${rpc_url} answers HTTP ${statusCode}: ${advice}`
  }
  if (isSolanaError(error)) return `the node at ${rpc_url} refuses: ${error.message}`
  if (isPassing(error)) return `no answer from ${rpc_url}: check --rpc and the connection, then run it again`
  if (error instanceof SyntaxError) return `${rpc_url} does not answer as a Solana node does: check --rpc`
  return undefined
}
