/** Executes one transaction in the open slot and describes how it landed. */

import {
  type Address,
  type CompiledTransactionMessage,
  type CompiledTransactionMessageWithLifetime,
  getCompiledTransactionMessageDecoder,
  getTransactionDecoder,
  type Transaction,
} from '@solana/kit'
import { FailedTransactionMetadata, type TransactionMetadata } from 'litesvm'
import { requireSize, TransactionTooLarge } from '../../engine/chain/client/build_transaction'
import { encodeBase58 } from '../../protocol/base58'
import { type Bank, SYSTEM_PROGRAM } from './bank'
import { encodeJson, RawJson } from './serve'
import type { Landed } from './store'

/** The addresses of a message, in the order that instruction indexes refer to, and those it may write. */
function accountsOf(message: CompiledTransactionMessage): { addresses: string[]; writable: string[] } {
  const { numSignerAccounts, numReadonlySignerAccounts, numReadonlyNonSignerAccounts } = message.header
  const addresses = message.staticAccounts as readonly Address[]
  const writable = addresses.filter((_, at) =>
    at < numSignerAccounts
      ? at < numSignerAccounts - numReadonlySignerAccounts
      : at < addresses.length - numReadonlyNonSignerAccounts,
  )
  return { addresses: [...addresses], writable }
}

/** TransactionError as RPC JSON: a name (`"BlockhashNotFound"`), or an object with one member (`{InstructionError: [0, {Custom: 1}]}`). */
type TransactionErrorJson = string | { [name: string]: unknown }

/**
 * Reads `err: <error>, meta: ...` of litesvm's FailedTransactionMetadata text: its typed getters are const enums without
 * names at run time, and the debug spelling equals the serde names that a node returns.
 */
export function transactionErrorOf(failed: string): TransactionErrorJson {
  const text = /err: (.*?), meta: /s.exec(failed)?.[1] ?? 'SanitizeFailure'
  const instruction = /^InstructionError\((\d+), (.*)\)$/s.exec(text)
  if (instruction) return { InstructionError: [Number(instruction[1]), instructionErrorOf(instruction[2]!)] }
  const account = /^(\w+) \{ account_index: (\d+) \}$/.exec(text)
  if (account) return { [account[1]!]: { account_index: Number(account[2]) } }
  const indexed = /^(\w+)\((\d+)\)$/.exec(text)
  if (indexed) return { [indexed[1]!]: Number(indexed[2]) }
  return text
}

function instructionErrorOf(text: string): TransactionErrorJson {
  const custom = /^Custom\((\d+)\)$/.exec(text)
  if (custom) return { Custom: Number(custom[1]) }
  return /^\w+/.exec(text)?.[0] ?? text
}

const lamportsOf = (bank: Bank, addresses: string[]): bigint[] =>
  addresses.map((address) => bank.newest(address)?.lamports ?? 0n)

function innerInstructionsOf(meta: TransactionMetadata): unknown[] {
  return meta
    .innerInstructions()
    .map((group, index) => ({
      index,
      instructions: group.map((inner) => ({
        programIdIndex: inner.instruction().programIdIndex(),
        accounts: [...inner.instruction().accounts()],
        data: encodeBase58(inner.instruction().data()),
        stackHeight: inner.stackHeight(),
      })),
    }))
    .filter((group) => group.instructions.length > 0)
}

function returnDataOf(meta: TransactionMetadata): Record<string, unknown> | undefined {
  const data = meta.returnData().data()
  if (data.length === 0) return undefined
  const programId = encodeBase58(meta.returnData().programId())
  return { programId, data: [Buffer.from(data).toString('base64'), 'base64'] }
}

/** Fee in lamports; litesvm exposes it in its debug text only. */
function feeOf(result: TransactionMetadata | FailedTransactionMetadata): bigint {
  return BigInt(/fee: (\d+)/.exec(result.toString())?.[1] ?? '0')
}

/** `meta` as getTransaction returns it, without the balances of tokens. */
function metaJson(args: {
  error: string
  fee: bigint
  before: bigint[]
  after: bigint[]
  meta: TransactionMetadata
}): string {
  const { error, fee, before, after, meta } = args
  return encodeJson({
    err: new RawJson(error),
    status: error === 'null' ? { Ok: null } : { Err: new RawJson(error) },
    fee,
    preBalances: before,
    postBalances: after,
    preTokenBalances: [],
    postTokenBalances: [],
    innerInstructions: innerInstructionsOf(meta),
    logMessages: meta.logs(),
    loadedAddresses: { writable: [], readonly: [] },
    returnData: returnDataOf(meta),
    rewards: [],
    computeUnitsConsumed: meta.computeUnitsConsumed(),
  })
}

/** Of a transaction of an earlier version than 1. */
const PACKET_BYTES_MAX = 1_232

export type DecodedTransaction = {
  bytes: Uint8Array
  transaction: Transaction
  message: CompiledTransactionMessage & CompiledTransactionMessageWithLifetime
  /** Base58 of the fee payer's signature; undefined while that slot is empty. */
  signature: string | undefined
}

/** @throws TransactionTooLarge, RangeError for a lookup table, or the decoder's error unless the bytes are a transaction */
export function decodeTransaction(bytes: Uint8Array): DecodedTransaction {
  const transaction = getTransactionDecoder().decode(bytes)
  const message = getCompiledTransactionMessageDecoder().decode(transaction.messageBytes)
  // litesvm does not limit the size of transactions.
  if (message.version === 1) requireSize(bytes.length, message.staticAccounts.length)
  else if (bytes.length > PACKET_BYTES_MAX) throw new TransactionTooLarge('too large for its version')
  if (message.version === 0 && message.addressTableLookups?.length)
    throw new RangeError('the embedded chain has no address lookup tables')
  const first = transaction.signatures[message.staticAccounts[0]!]
  return { bytes, transaction, message, signature: first ? encodeBase58(first) : undefined }
}

/**
 * The account whose nonce is the transaction's lifetime: its first instruction is then `AdvanceNonceAccount` (number 4 of
 * the system program). Legacy and v0 transactions only.
 */
export function nonceAccountOf(message: DecodedTransaction['message']): string | undefined {
  const first = message.version === 1 ? undefined : message.instructions[0]
  if (!first || message.staticAccounts[first.programAddressIndex] !== SYSTEM_PROGRAM) return undefined
  const [tag] = first.data ?? []
  return tag === 4 ? message.staticAccounts[first.accountIndices?.[0] ?? -1] : undefined
}

/** Undefined if the transaction failed before its fee was charged: it does not enter a block. */
export function executeTransaction(
  bank: Bank,
  decoded: DecodedTransaction,
  slot: number,
  unix_s: number,
): Landed | undefined {
  const { addresses, writable } = accountsOf(decoded.message)
  for (const address of writable) bank.remember(address)
  const before = lamportsOf(bank, addresses)
  const result = bank.svm.sendTransaction(decoded.transaction)
  const failed = result instanceof FailedTransactionMetadata
  const after = lamportsOf(bank, addresses)
  if (failed && before[0] === after[0]) return undefined
  const error = failed ? encodeJson(transactionErrorOf(result.toString())) : 'null'
  const meta = failed ? result.meta() : result
  return {
    signature: decoded.signature!,
    slot,
    bytes: decoded.bytes,
    error,
    meta: metaJson({ error, fee: feeOf(result), before, after, meta }),
    unix_s,
    mentions: [...new Set(addresses)],
  }
}
