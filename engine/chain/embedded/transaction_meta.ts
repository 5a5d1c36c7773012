/** `meta` of a transaction as getTransaction answers it: balances, inner instructions, logs, fee. */
import { getBase58Decoder } from '@solana/kit'
import type { FailedTransactionMetadata, TransactionMetadata } from 'litesvm'
import { encodeLongBase58 } from '../../../protocol/long_base58'
import type { Bank } from './bank'
import { encodeJson, RawJson } from './json'
import { mintOf, tokenAccountOf, uiAmount } from './token_accounts'
import type { TransactionAccounts } from './transaction_accounts'

export type Balances = { lamports: bigint[]; tokens: Record<string, unknown>[] }

export function balancesOf(bank: Bank, addresses: string[]): Balances {
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
        data: encodeLongBase58(inner.instruction().data()),
        stackHeight: inner.stackHeight(),
      })),
    }))
    .filter((group) => group.instructions.length > 0)
}

export function returnDataOf(meta: TransactionMetadata): Record<string, unknown> | undefined {
  const data = meta.returnData().data()
  if (data.length === 0) return undefined
  const programId = getBase58Decoder().decode(meta.returnData().programId())
  return { programId, data: [Buffer.from(data).toString('base64'), 'base64'] }
}

/** Fee in lamports; litesvm shows it in its debug text only. */
export function feeOf(result: TransactionMetadata | FailedTransactionMetadata): bigint {
  return BigInt(/fee: (\d+)/.exec(result.toString())?.[1] ?? '0')
}

export function metaJson(args: {
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
