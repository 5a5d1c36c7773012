/** Runs one transaction in the open slot and describes how it landed. */
import {
  type CompiledTransactionMessage,
  type CompiledTransactionMessageWithLifetime,
  getBase58Decoder,
  getCompiledTransactionMessageDecoder,
  getTransactionDecoder,
  type Transaction,
} from '@solana/kit'
import { FailedTransactionMetadata } from 'litesvm'
import { requireSize } from '../transaction_limits'
import type { Bank } from './bank'
import { encodeJson } from './json'
import type { Landed } from './store'
import { accountsOf } from './transaction_accounts'
import { transactionErrorOf } from './transaction_error'
import { balancesOf, feeOf, metaJson } from './transaction_meta'

export type DecodedTransaction = {
  bytes: Uint8Array
  transaction: Transaction
  message: CompiledTransactionMessage & CompiledTransactionMessageWithLifetime
  /** Base58 of the fee payer's signature; undefined while that slot is empty. */
  signature: string | undefined
}

/** @throws TransactionTooLarge, or a decoder's error when the bytes are no transaction */
export function decodeTransaction(bytes: Uint8Array): DecodedTransaction {
  const transaction = getTransactionDecoder().decode(bytes)
  const message = getCompiledTransactionMessageDecoder().decode(transaction.messageBytes)
  // litesvm itself runs transactions of any size.
  requireSize(message.version, bytes.length, message.staticAccounts.length)
  const first = transaction.signatures[message.staticAccounts[0]!]
  return { bytes, transaction, message, signature: first ? getBase58Decoder().decode(first) : undefined }
}

/** Undefined when the transaction failed before its fee was charged: such a transaction never enters a block. */
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
