/** The JSON-RPC error codes of a Solana node that this server answers with, and the class that carries one. */

/** Source: Agave `rpc-client-api/src/custom_error.rs` and JSON-RPC 2.0 section 5.1. */
export const RPC_CODE = {
  preflight_failure: -32002,
  signature_verification_failure: -32003,
  node_unhealthy: -32005,
  unsupported_transaction_version: -32015,
  min_context_slot_not_reached: -32016,
  parse_error: -32700,
  invalid_request: -32600,
  method_not_found: -32601,
  invalid_params: -32602,
} as const

export class RpcError extends Error {
  constructor(
    readonly code: number,
    message: string,
    readonly data?: unknown,
  ) {
    super(message)
  }
}

export function invalidParams(message: string): RpcError {
  return new RpcError(RPC_CODE.invalid_params, `Invalid params: ${message}`)
}
