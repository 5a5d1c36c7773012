/** RPC methods about SPL tokens. */
import { accountJson } from '../account_json'
import type { BankAccount } from '../bank'
import { addressAt, commitmentOf, configAt, type Method, withContext } from '../params'
import { invalidParams } from '../rpc_error'
import { mintOf, TOKEN_2022_PROGRAM, TOKEN_PROGRAM, tokenAccountOf, uiAmount } from '../token_accounts'

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

export const tokenMethods: Record<string, Method> = {
  getTokenAccountBalance: tokenBalance,
  getTokenSupply: tokenSupply,
  getTokenAccountsByOwner: tokenAccountsByOwner,
}
