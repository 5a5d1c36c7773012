/** Serves the RPC methods for accounts and SPL tokens. */

import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { equalBytes, readU64Le } from '../../protocol/bytes'
import type { BankAccount } from './bank'
import {
  addressAt,
  addressesAt,
  type Config,
  commitmentOf,
  configAt,
  invalidParams,
  type Method,
  withContext,
} from './rpc'

/** Rent-exempt accounts never pay rent: nodes return the largest u64. */
const RENT_EPOCH = 0xffff_ffff_ffff_ffffn
const BASE58_DATA_MAX = 128
export const TOKEN_PROGRAM = 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA'
const TOKEN_2022_PROGRAM = 'TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb'
const ACCOUNT_BYTES = 165
const MINT_BYTES = 82

/**
 * An account as RPC JSON. `encoding`: base58 (default), or base64, which also replaces jsonParsed as on a node without
 * a parser. `dataSlice` cuts the data, never `space`.
 */
export function accountJson(account: BankAccount | undefined, config: Config): unknown {
  if (!account) return null
  const { lamports, owner, executable } = account
  const slice = config['dataSlice'] as { offset: number; length: number } | undefined
  const data = slice ? account.data.subarray(slice.offset, slice.offset + slice.length) : account.data
  return {
    lamports,
    owner,
    executable,
    rentEpoch: RENT_EPOCH,
    space: account.data.length,
    data: dataJson(data, config['encoding']),
  }
}

function dataJson(data: Uint8Array, encoding: unknown): unknown {
  if (encoding === 'base64' || encoding === 'jsonParsed')
    return [Buffer.from(data).toString('base64'), 'base64']
  if (encoding !== undefined && encoding !== 'base58') throw invalidParams('encoding not supported')
  if (data.length > BASE58_DATA_MAX) throw invalidParams('data longer than 128 bytes needs encoding base64')
  return encoding === 'base58' ? [encodeBase58(data), 'base58'] : encodeBase58(data)
}

type TokenAccount = { mint: string; owner: string; amount: bigint; program: string }

/** Undefined for anything that is not an initialized token account. */
export function tokenAccountOf(account: BankAccount | undefined): TokenAccount | undefined {
  if (!account || (account.owner !== TOKEN_PROGRAM && account.owner !== TOKEN_2022_PROGRAM)) return undefined
  if (account.data.length < ACCOUNT_BYTES || account.data[108] === 0) return undefined
  return {
    mint: encodeBase58(account.data.subarray(0, 32)),
    owner: encodeBase58(account.data.subarray(32, 64)),
    amount: readU64Le(account.data, 64),
    program: account.owner,
  }
}

/** Undefined for anything that is not an initialized mint. */
export function mintOf(account: BankAccount | undefined): { supply: bigint; decimals: number } | undefined {
  if (!account || (account.owner !== TOKEN_PROGRAM && account.owner !== TOKEN_2022_PROGRAM)) return undefined
  if (account.data.length < MINT_BYTES || account.data[45] !== 1) return undefined
  return { supply: readU64Le(account.data, 36), decimals: account.data[44]! }
}

/** `uiTokenAmount` of the RPC; the decimal text is exact. */
export function uiAmount(amount: bigint, decimals: number): Record<string, unknown> {
  const digits = amount.toString().padStart(decimals + 1, '0')
  const whole = digits.slice(0, digits.length - decimals)
  const fraction = digits.slice(digits.length - decimals).replace(/0+$/, '')
  const text = fraction === '' ? whole : `${whole}.${fraction}`
  return { amount: amount.toString(), decimals, uiAmount: Number(text), uiAmountString: text }
}

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

const tokenBalance: Method = (machine, params) => {
  const config = configAt(machine, params, 1)
  const level = commitmentOf(config)
  const token = tokenAccountOf(machine.accountAt(addressAt(params, 0), level))
  const mint = token && mintOf(machine.accountAt(token.mint, level))
  if (!token || !mint) throw invalidParams('not a Token account')
  return withContext(machine, config, uiAmount(token.amount, mint.decimals))
}

const tokenSupply: Method = (machine, params) => {
  const config = configAt(machine, params, 1)
  const mint = mintOf(machine.accountAt(addressAt(params, 0), commitmentOf(config)))
  if (!mint) throw invalidParams('not a Token mint')
  return withContext(machine, config, uiAmount(mint.supply, mint.decimals))
}

const tokenAccountsByOwner: Method = (machine, params) => {
  const owner = addressAt(params, 0)
  const filter = (params[1] ?? {}) as { mint?: string; programId?: string }
  const config = configAt(machine, params, 2)
  const slot = machine.slotAt(commitmentOf(config))
  const programs = filter.programId ? [filter.programId] : [TOKEN_PROGRAM, TOKEN_2022_PROGRAM]
  const held = ([, account]: [string, BankAccount]): boolean => {
    const token = tokenAccountOf(account)
    return token?.owner === owner && (filter.mint === undefined || token.mint === filter.mint)
  }
  const found = programs.flatMap((program) => machine.bank.ownedBy(program, slot).filter(held))
  return withContext(
    machine,
    config,
    found.map(([pubkey, account]) => ({ pubkey, account: accountJson(account, config) })),
  )
}

export const accountMethods: Record<string, Method> = {
  getBalance: balance,
  getAccountInfo: accountInfo,
  getMultipleAccounts: multipleAccounts,
  getProgramAccounts: programAccounts,
  getMinimumBalanceForRentExemption: minimumBalance,
  getTokenAccountBalance: tokenBalance,
  getTokenSupply: tokenSupply,
  getTokenAccountsByOwner: tokenAccountsByOwner,
}
