/** RPC methods about landed transactions: statuses, signatures of an address, whole transactions. */

import {
  type CompiledTransactionMessage,
  getCompiledTransactionMessageDecoder,
  getTransactionDecoder,
} from '@solana/kit'
import { encodeBase58 } from '../../protocol/base58'
import type { Commitment, Machine } from './machine'
import {
  addressAt,
  type Config,
  commitmentOf,
  configAt,
  invalidParams,
  type Method,
  RawJson,
  RPC_CODE,
  RpcError,
  textAt,
  withContext,
} from './rpc'

const STATUSES_MAX = 256
const SIGNATURES_MAX = 1_000

function levelOf(machine: Machine, slot: number): Commitment {
  if (slot <= machine.slotAt('finalized')) return 'finalized'
  return slot <= machine.slotAt('confirmed') ? 'confirmed' : 'processed'
}

const signatureStatuses: Method = (machine, params) => {
  const list = params[0]
  if (!Array.isArray(list) || list.length > STATUSES_MAX)
    throw invalidParams(`at most ${STATUSES_MAX} signatures`)
  const statuses = list.map((_, at) => {
    const found = machine.store.transaction(textAt(list, at))
    if (!found) return null
    const confirmationStatus = levelOf(machine, found.slot)
    const confirmations = confirmationStatus === 'finalized' ? null : machine.tip - found.slot
    const status = found.error === 'null' ? { Ok: null } : { Err: new RawJson(found.error) }
    return { slot: found.slot, confirmations, err: new RawJson(found.error), status, confirmationStatus }
  })
  return withContext(machine, { commitment: 'processed' }, statuses)
}

const signaturesForAddress: Method = (machine, params) => {
  const config = configAt(machine, params, 1)
  const level = commitmentOf(config)
  const limit = Math.min(Number(config['limit'] ?? SIGNATURES_MAX), SIGNATURES_MAX)
  const edge = (name: string): string | undefined =>
    typeof config[name] === 'string' ? (config[name] as string) : undefined
  const rows = machine.store.history(
    addressAt(params, 0),
    machine.slotAt(level),
    edge('before'),
    edge('until'),
    limit,
  )
  return rows.map((row) => ({
    signature: row.signature,
    slot: row.slot,
    err: new RawJson(row.error),
    memo: null,
    blockTime: row.unix_s,
    confirmationStatus: levelOf(machine, row.slot),
  }))
}

const transaction: Method = (machine, params) => {
  const config = configAt(machine, params, 1)
  const found = machine.store.transaction(textAt(params, 0))
  if (!found || found.slot > machine.slotAt(commitmentOf(config))) return null
  const bytes = new Uint8Array(found.bytes)
  const message = getCompiledTransactionMessageDecoder().decode(
    getTransactionDecoder().decode(bytes).messageBytes,
  )
  const supported = config['maxSupportedTransactionVersion']
  if (message.version !== 'legacy' && (typeof supported !== 'number' || supported < message.version)) {
    throw new RpcError(
      RPC_CODE.unsupported_transaction_version,
      `Transaction version (${message.version}) is not supported by the requesting client`,
    )
  }
  return {
    slot: found.slot,
    blockTime: found.unix_s,
    version: message.version,
    meta: new RawJson(found.meta),
    transaction: transactionJson(bytes, message, config),
  }
}

function transactionJson(bytes: Uint8Array, message: CompiledTransactionMessage, config: Config): unknown {
  const encoding = config['encoding'] ?? 'json'
  if (encoding === 'base64') return [Buffer.from(bytes).toString('base64'), 'base64']
  if (encoding === 'base58') return [encodeBase58(bytes), 'base58']
  if (encoding !== 'json' || message.version === 1)
    throw invalidParams('this transaction is served as base64')
  const { header } = message
  return {
    signatures: Object.values(getTransactionDecoder().decode(bytes).signatures).map(
      (one) => one && encodeBase58(one),
    ),
    message: {
      accountKeys: message.staticAccounts,
      header: {
        numRequiredSignatures: header.numSignerAccounts,
        numReadonlySignedAccounts: header.numReadonlySignerAccounts,
        numReadonlyUnsignedAccounts: header.numReadonlyNonSignerAccounts,
      },
      instructions: message.instructions.map((instruction) => ({
        programIdIndex: instruction.programAddressIndex,
        accounts: instruction.accountIndices ?? [],
        data: encodeBase58(new Uint8Array(instruction.data ?? [])),
        stackHeight: 1,
      })),
      recentBlockhash: (message as { lifetimeToken?: string }).lifetimeToken,
    },
  }
}

export const historyMethods: Record<string, Method> = {
  getSignatureStatuses: signatureStatuses,
  getSignaturesForAddress: signaturesForAddress,
  getTransaction: transaction,
}
