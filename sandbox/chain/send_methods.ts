/** Serves the RPC methods sendTransaction and simulateTransaction. */

import { FailedTransactionMetadata } from 'litesvm'
import { TransactionTooLarge } from '../../engine/chain/client/build_transaction'
import type { Machine } from './machine'
import {
  type Config,
  configAt,
  encodeJson,
  inContext,
  invalidParams,
  type Method,
  RawJson,
  RPC_CODE,
  RpcError,
  requireBase64,
  textAt,
} from './rpc'
import { type DecodedTransaction, decodeTransaction, transactionErrorOf } from './transaction_meta'

/** @throws RpcError unless the bytes are a transaction */
function decodeParam({ faults }: Machine, params: unknown[], config: Config): DecodedTransaction {
  requireBase64(config)
  const refused = invalidParams('failed to deserialize the transaction')
  let decoded: DecodedTransaction
  try {
    decoded = decodeTransaction(new Uint8Array(Buffer.from(textAt(params, 0), 'base64')))
  } catch (error) {
    throw error instanceof TransactionTooLarge ? invalidParams(error.message) : refused
  }
  if (faults.refuse_v1 === true && decoded.message.version === 1) throw refused
  return decoded
}

type Simulation = { err: unknown; value: Record<string, unknown> }

const UNRUN = { logs: [], unitsConsumed: 0, returnData: null, accounts: null, innerInstructions: null }

function simulate({ bank }: Machine, decoded: DecodedTransaction, verify: boolean): Simulation {
  bank.svm.withSigverify(verify)
  const result = bank.svm.simulateTransaction(decoded.transaction)
  bank.svm.withSigverify(true)
  const err = result instanceof FailedTransactionMetadata ? transactionErrorOf(result.toString()) : null
  const meta = result.meta()
  const ran = { logs: meta.logs(), unitsConsumed: meta.computeUnitsConsumed() }
  return { err, value: { ...UNRUN, ...ran, err: new RawJson(encodeJson(err)) } }
}

const simulateTransaction = inContext(1, (machine, params, _, config) => {
  const decoded = decodeParam(machine, params, config)
  if (!machine.isAlive(decoded)) return { ...UNRUN, err: 'BlockhashNotFound' }
  return simulate(machine, decoded, config['sigVerify'] === true).value
})

function preflight(machine: Machine, decoded: DecodedTransaction): void {
  if (machine.store.transaction(decoded.signature!))
    throw preflightFailure('This transaction has already been processed', 'AlreadyProcessed')
  if (!machine.isAlive(decoded)) throw preflightFailure('Blockhash not found', 'BlockhashNotFound')
  const { err, value } = simulate(machine, decoded, true)
  if (err === null) return
  if (err === 'SignatureFailure') throw unsigned()
  throw preflightFailure(`Error processing transaction: ${JSON.stringify(err)}`, err, value)
}

const unsigned = () =>
  new RpcError(RPC_CODE.signature_verification_failure, 'Transaction signature verification failure')

function preflightFailure(message: string, err: unknown, value: Record<string, unknown> = {}): RpcError {
  const data = { ...UNRUN, ...value, err }
  return new RpcError(RPC_CODE.preflight_failure, `Transaction simulation failed: ${message}`, data)
}

/** Queues the transaction; the reply does not promise that it lands. */
const sendTransaction: Method = (machine, params) => {
  const config = configAt(machine, params, 1)
  const decoded = decodeParam(machine, params, config)
  if (!decoded.signature) throw unsigned()
  if (config['skipPreflight'] !== true) preflight(machine, decoded)
  try {
    machine.enqueue(decoded)
  } catch {
    throw new RpcError(RPC_CODE.node_unhealthy, 'Node is behind: too many pending transactions')
  }
  return decoded.signature
}

export const SEND_METHODS: Record<string, Method> = { simulateTransaction, sendTransaction }
