/** Which accounts a transaction names, in index order, and which of them it may write. */
import { type Address, type CompiledTransactionMessage, getBase58Decoder } from '@solana/kit'
import type { Bank } from './bank'

export type TransactionAccounts = {
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
      getBase58Decoder().decode(
        table.subarray(LOOKUP_TABLE_HEADER_BYTES + 32 * index, LOOKUP_TABLE_HEADER_BYTES + 32 * index + 32),
      )
    loaded.writable.push(...lookup.writableIndexes.map(entry))
    loaded.readonly.push(...lookup.readonlyIndexes.map(entry))
  }
  return loaded
}
