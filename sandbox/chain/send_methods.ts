/** RPC methods sendTransaction and simulateTransaction. */

import { FailedTransactionMetadata } from 'litesvm'
import { TransactionTooLarge } from '../../engine/chain/client/build_transaction'
import { encodeBase58 } from '../../protocol/base58'
import { accountJson } from './account_methods'
import type { Machine } from './machine'
import {
  configAt,
  encodeJson,
  invalidParams,
  type Method,
  RawJson,
  RPC_CODE,
  RpcError,
  textAt,
  withContext,
} from './rpc'
import {
  accountsOf,
  type DecodedTransaction,
  decodeTransaction,
  innerInstructionsOf,
  returnDataOf,
  transactionErrorOf,
} from './transaction_meta'

/** SIMD-0186: added to the data size of each loaded account. */
const ACCOUNT_OVERHEAD_BYTES = 64
const LOADER_V3 = 'BPFLoaderUpgradeab1e11111111111111111111111'

/** @throws RpcError unless the bytes are a transaction */
function decodeParam(
  { faults }: Machine,
  params: unknown[],
  config: Record<string, unknown>,
): DecodedTransaction {
  const encoding = config['encoding'] ?? 'base58'
  if (encoding !== 'base64') throw invalidParams('transactions are read as base64')
  const decoded = decodeBytes(new Uint8Array(Buffer.from(textAt(params, 0), 'base64')))
  if (faults.refuse_v1 === true && decoded.message.version === 1)
    throw invalidParams('failed to deserialize the transaction')
  return decoded
}

function decodeBytes(bytes: Uint8Array): DecodedTransaction {
  try {
    return decodeTransaction(bytes)
  } catch (error) {
    if (error instanceof TransactionTooLarge) throw invalidParams(error.message)
    throw invalidParams('failed to deserialize the transaction')
  }
}

type Simulation = {
  err: unknown
  failed: boolean
  value: Record<string, unknown>
  posts: [string, unknown][]
}

function simulate(
  machine: Machine,
  decoded: DecodedTransaction,
  verify: boolean,
  config: Record<string, unknown>,
): Simulation {
  const { svm } = machine.bank
  svm.withSigverify(verify)
  const result = svm.simulateTransaction(decoded.transaction)
  svm.withSigverify(true)
  const failed = result instanceof FailedTransactionMetadata
  const err = failed ? transactionErrorOf(result.toString()) : null
  const meta = result.meta()
  const posts = failed ? [] : result.postAccounts()
  return {
    err,
    failed,
    posts: posts.map((post) => [
      post.address,
      accountJson(
        {
          lamports: post.lamports,
          data: new Uint8Array(post.data),
          owner: post.programAddress,
          executable: post.executable,
        },
        config,
      ),
    ]),
    value: {
      err: new RawJson(encodeJson(err)),
      logs: meta.logs(),
      unitsConsumed: meta.computeUnitsConsumed(),
      returnData: returnDataOf(meta) ?? null,
      loadedAccountsDataSize: loadedBytes(machine, decoded),
      innerInstructions: config['innerInstructions'] === true ? innerInstructionsOf(meta) : null,
    },
  }
}

function loadedBytes(machine: Machine, decoded: DecodedTransaction): number {
  let total = 0
  for (const address of new Set(accountsOf(decoded.message, machine.bank).addresses)) {
    const account = machine.bank.newest(address)
    if (!account) continue
    total += account.data.length + ACCOUNT_OVERHEAD_BYTES
    if (account.executable && account.owner === LOADER_V3) total += programDataBytes(machine, account.data)
  }
  return total
}

function programDataBytes(machine: Machine, program: Uint8Array): number {
  const address = encodeBase58(program.subarray(4, 36))
  return (machine.bank.newest(address)?.data.length ?? 0) + ACCOUNT_OVERHEAD_BYTES
}

const simulateTransaction: Method = (machine, params) => {
  const config = configAt(machine, params, 1)
  const decoded = decodeParam(machine, params, config)
  const replace = config['replaceRecentBlockhash'] === true
  if (!replace && !machine.isBlockhashValid(decoded.message.lifetimeToken)) {
    const value = { err: 'BlockhashNotFound', logs: [], unitsConsumed: 0, returnData: null, accounts: null }
    return withContext(machine, config, value)
  }
  const wanted = config['accounts'] as { addresses?: string[]; encoding?: string } | undefined
  const simulation = simulate(machine, decoded, config['sigVerify'] === true, {
    ...config,
    encoding: wanted?.encoding ?? 'base64',
  })
  const posts = new Map(simulation.posts)
  const { blockhash } = machine.blockhashes.at(machine.tip)
  return withContext(machine, config, {
    ...simulation.value,
    accounts: wanted?.addresses?.map((address) => posts.get(address) ?? null) ?? null,
    ...(replace
      ? { replacementBlockhash: { blockhash, lastValidBlockHeight: machine.lastValidHeight(blockhash) } }
      : {}),
  })
}

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

/** Queues the transaction; the reply does not promise that it lands. */
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

export const sendMethods: Record<string, Method> = { simulateTransaction, sendTransaction }
