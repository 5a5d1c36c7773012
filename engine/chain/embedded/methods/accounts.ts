/** RPC methods about accounts. */
import { decodeBase58 } from '../../../../protocol/base58'
import { equalBytes } from '../../../../protocol/bytes'
import { accountJson } from '../account_json'
import type { BankAccount } from '../bank'
import { addressAt, addressesAt, commitmentOf, configAt, type Method, withContext } from '../params'
import { invalidParams } from '../rpc_error'

const balance: Method = (machine, params) => {
  const config = configAt(machine, params, 1)
  const account = machine.accountAt(addressAt(params, 0), commitmentOf(config))
  return withContext(machine, config, account?.lamports ?? 0n)
}

const accountInfo: Method = (machine, params) => {
  const config = configAt(machine, params, 1)
  const account = machine.accountAt(addressAt(params, 0), commitmentOf(config))
  return withContext(machine, config, accountJson(account, config))
}

const multipleAccounts: Method = (machine, params) => {
  const config = configAt(machine, params, 1)
  const level = commitmentOf(config)
  const accounts = addressesAt(params, 0, 100).map((address) => machine.accountAt(address, level))
  return withContext(
    machine,
    config,
    accounts.map((account) => accountJson(account, config)),
  )
}

type Filter = { memcmp?: { offset: number; bytes: string; encoding?: string }; dataSize?: number }

function matches(account: BankAccount, filter: Filter): boolean {
  if (filter.dataSize !== undefined) return account.data.length === Number(filter.dataSize)
  if (!filter.memcmp) throw invalidParams('unknown filter')
  const { offset, bytes, encoding } = filter.memcmp
  const wanted = encoding === 'base64' ? new Uint8Array(Buffer.from(bytes, 'base64')) : anyBase58(bytes)
  const at = Number(offset)
  return equalBytes(account.data.subarray(at, at + wanted.length), wanted)
}

function anyBase58(text: string): Uint8Array {
  for (let width = 1; width <= 128; width++) {
    const bytes = decodeBase58(text, width)
    if (bytes) return bytes
  }
  throw invalidParams('memcmp bytes are not base58')
}

const programAccounts: Method = (machine, params) => {
  const config = configAt(machine, params, 1)
  const filters = (config['filters'] ?? []) as Filter[]
  const found = machine.bank
    .ownedBy(addressAt(params, 0), machine.slotAt(commitmentOf(config)))
    .filter(([, account]) => filters.every((filter) => matches(account, filter)))
    .map(([pubkey, account]) => ({ pubkey, account: accountJson(account, config) }))
  return config['withContext'] === true ? withContext(machine, config, found) : found
}

const minimumBalance: Method = (machine, params) => {
  const bytes = params[0]
  if (typeof bytes !== 'number' || !Number.isSafeInteger(bytes) || bytes < 0)
    throw invalidParams('expected a size')
  return machine.bank.svm.minimumBalanceForRentExemption(BigInt(bytes))
}

export const accountMethods: Record<string, Method> = {
  getBalance: balance,
  getAccountInfo: accountInfo,
  getMultipleAccounts: multipleAccounts,
  getProgramAccounts: programAccounts,
  getMinimumBalanceForRentExemption: minimumBalance,
}
