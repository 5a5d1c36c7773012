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
import { requireSize } from '../../engine/chain/client/build_transaction'
import { encodeBase58 } from '../../protocol/base58'
import { mintOf, tokenAccountOf, uiAmount } from './account_methods'
import type { Bank } from './bank'
import { encodeJson, RawJson } from './rpc'
import type { Landed } from './store'

type TransactionAccounts = {
  /** Static accounts, then loaded writable, then loaded readonly: the order instruction indexes refer to. */
  addresses: string[]
  writable: boolean[]
  loaded: { writable: string[]; readonly: string[] }
}

const LOOKUP_TABLE_HEADER_BYTES = 56

export function accountsOf(message: CompiledTransactionMessage, bank: Bank): TransactionAccounts {
  const { numSignerAccounts, numReadonlySignerAccounts, numReadonlyNonSignerAccounts } = message.header
  const fixed = message.staticAccounts as readonly Address[]
  const writable = fixed.map((_, at) =>
    at < numSignerAccounts
      ? at < numSignerAccounts - numReadonlySignerAccounts
      : at < fixed.length - numReadonlyNonSignerAccounts,
  )
  const loaded = loadedOf(message, bank)
  return {
    addresses: [...fixed, ...loaded.writable, ...loaded.readonly],
    writable: [...writable, ...loaded.writable.map(() => true), ...loaded.readonly.map(() => false)],
    loaded,
  }
}

function loadedOf(
  message: CompiledTransactionMessage,
  bank: Bank,
): { writable: string[]; readonly: string[] } {
  const loaded: { writable: string[]; readonly: string[] } = { writable: [], readonly: [] }
  if (message.version !== 0) return loaded
  for (const lookup of message.addressTableLookups ?? []) {
    const table = bank.newest(lookup.lookupTableAddress)?.data ?? new Uint8Array()
    const entry = (index: number): string =>
      encodeBase58(
        table.subarray(LOOKUP_TABLE_HEADER_BYTES + 32 * index, LOOKUP_TABLE_HEADER_BYTES + 32 * index + 32),
      )
    loaded.writable.push(...lookup.writableIndexes.map(entry))
    loaded.readonly.push(...lookup.readonlyIndexes.map(entry))
  }
  return loaded
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

type Balances = { lamports: bigint[]; tokens: Record<string, unknown>[] }

function balancesOf(bank: Bank, addresses: string[]): Balances {
  const balances: Balances = { lamports: [], tokens: [] }
  addresses.forEach((address, accountIndex) => {
    const account = bank.newest(address)
    balances.lamports.push(account?.lamports ?? 0n)
    const token = tokenAccountOf(account)
    const decimals = token && mintOf(bank.newest(token.mint))?.decimals
    if (!token || decimals === undefined) return
    const { mint, owner, amount, program: programId } = token
    balances.tokens.push({ accountIndex, mint, owner, programId, uiTokenAmount: uiAmount(amount, decimals) })
  })
  return balances
}

export function innerInstructionsOf(meta: TransactionMetadata): unknown[] {
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

export function returnDataOf(meta: TransactionMetadata): Record<string, unknown> | undefined {
  const data = meta.returnData().data()
  if (data.length === 0) return undefined
  const programId = encodeBase58(meta.returnData().programId())
  return { programId, data: [Buffer.from(data).toString('base64'), 'base64'] }
}

/** Fee in lamports; litesvm exposes it in its debug text only. */
function feeOf(result: TransactionMetadata | FailedTransactionMetadata): bigint {
  return BigInt(/fee: (\d+)/.exec(result.toString())?.[1] ?? '0')
}

/** `meta` as getTransaction returns it. */
function metaJson(args: {
  error: string
  fee: bigint
  before: Balances
  after: Balances
  accounts: TransactionAccounts
  meta: TransactionMetadata
}): string {
  const { error, fee, before, after, accounts, meta } = args
  return encodeJson({
    err: new RawJson(error),
    status: error === 'null' ? { Ok: null } : { Err: new RawJson(error) },
    fee,
    preBalances: before.lamports,
    postBalances: after.lamports,
    preTokenBalances: before.tokens,
    postTokenBalances: after.tokens,
    innerInstructions: innerInstructionsOf(meta),
    logMessages: meta.logs(),
    loadedAddresses: accounts.loaded,
    returnData: returnDataOf(meta),
    rewards: [],
    computeUnitsConsumed: meta.computeUnitsConsumed(),
  })
}

export type DecodedTransaction = {
  bytes: Uint8Array
  transaction: Transaction
  message: CompiledTransactionMessage & CompiledTransactionMessageWithLifetime
  /** Base58 of the fee payer's signature; undefined while that slot is empty. */
  signature: string | undefined
}

/** @throws TransactionTooLarge, or the decoder's error unless the bytes are a transaction */
export function decodeTransaction(bytes: Uint8Array): DecodedTransaction {
  const transaction = getTransactionDecoder().decode(bytes)
  const message = getCompiledTransactionMessageDecoder().decode(transaction.messageBytes)
  // litesvm does not limit the size of transactions.
  requireSize(message.version, bytes.length, message.staticAccounts.length)
  const first = transaction.signatures[message.staticAccounts[0]!]
  return { bytes, transaction, message, signature: first ? encodeBase58(first) : undefined }
}

/** Undefined if the transaction failed before its fee was charged: it does not enter a block. */
export function executeTransaction(
  bank: Bank,
  decoded: DecodedTransaction,
  slot: number,
  unix_s: number,
): Landed | undefined {
  const accounts = accountsOf(decoded.message, bank)
  accounts.addresses.forEach((address, at) => {
    if (accounts.writable[at]) bank.remember(address)
  })
  const before = balancesOf(bank, accounts.addresses)
  const result = bank.svm.sendTransaction(decoded.transaction)
  const failed = result instanceof FailedTransactionMetadata
  const after = balancesOf(bank, accounts.addresses)
  if (failed && before.lamports[0] === after.lamports[0]) return undefined
  const error = failed ? encodeJson(transactionErrorOf(result.toString())) : 'null'
  const meta = failed ? result.meta() : result
  return {
    signature: decoded.signature!,
    slot,
    bytes: decoded.bytes,
    error,
    meta: metaJson({ error, fee: feeOf(result), before, after, accounts, meta }),
    unix_s,
    mentions: [...new Set(accounts.addresses)],
    logs: meta.logs(),
  }
}
