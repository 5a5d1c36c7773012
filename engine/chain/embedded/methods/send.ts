/** RPC method sendTransaction. */
import type { DecodedTransaction } from '../execute_transaction'
import type { Machine } from '../machine'
import { configAt, type Method } from '../params'
import { RPC_CODE, RpcError } from '../rpc_error'
import { decodeParam, simulate } from './simulate'

function preflight(machine: Machine, decoded: DecodedTransaction): void {
  if (machine.store.transaction(decoded.signature!)) {
    throw preflightFailure('This transaction has already been processed', 'AlreadyProcessed', [])
  }
  if (!machine.isBlockhashValid(decoded.message.lifetimeToken)) {
    throw preflightFailure('Blockhash not found', 'BlockhashNotFound', [])
  }
  const { failed, err, value } = simulate(machine, decoded, true, { encoding: 'base64' })
  if (!failed) return
  if (err === 'SignatureFailure') {
    throw new RpcError(RPC_CODE.signature_verification_failure, 'Transaction signature verification failure')
  }
  throw preflightFailure(`Error processing transaction: ${JSON.stringify(err)}`, err, value['logs'], value)
}

function preflightFailure(
  message: string,
  err: unknown,
  logs: unknown,
  value: Record<string, unknown> = {},
): RpcError {
  const data = {
    accounts: null,
    unitsConsumed: 0,
    returnData: null,
    innerInstructions: null,
    ...value,
    err,
    logs,
  }
  return new RpcError(RPC_CODE.preflight_failure, `Transaction simulation failed: ${message}`, data)
}

/** Accepts for landing; an answer promises nothing about the transaction's fate. */
const sendTransaction: Method = (machine, params) => {
  const config = configAt(machine, params, 1)
  const decoded = decodeParam(machine, params, config)
  if (!decoded.signature) {
    throw new RpcError(RPC_CODE.signature_verification_failure, 'Transaction signature verification failure')
  }
  if (config['skipPreflight'] !== true) preflight(machine, decoded)
  try {
    machine.enqueue(decoded)
  } catch {
    throw new RpcError(RPC_CODE.node_unhealthy, 'Node is behind: too many pending transactions')
  }
  return decoded.signature
}

export const sendMethods: Record<string, Method> = { sendTransaction }
