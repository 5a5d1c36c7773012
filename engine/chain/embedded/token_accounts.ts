/** SPL token account and mint layouts, as far as balances need them. */
import { getBase58Decoder } from '@solana/kit'
import { readU64Le } from '../../../protocol/bytes'
import type { BankAccount } from './bank'

export const TOKEN_PROGRAM = 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA'
export const TOKEN_2022_PROGRAM = 'TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb'
const ACCOUNT_BYTES = 165
const MINT_BYTES = 82

export type TokenAccount = { mint: string; owner: string; amount: bigint; program: string }

/** Undefined for anything that is not an initialized token account. */
export function tokenAccountOf(account: BankAccount | undefined): TokenAccount | undefined {
  if (!account || (account.owner !== TOKEN_PROGRAM && account.owner !== TOKEN_2022_PROGRAM)) return undefined
  if (account.data.length < ACCOUNT_BYTES || account.data[108] === 0) return undefined
  const base58 = getBase58Decoder()
  return {
    mint: base58.decode(account.data.subarray(0, 32)),
    owner: base58.decode(account.data.subarray(32, 64)),
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
