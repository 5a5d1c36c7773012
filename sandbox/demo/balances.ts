/** Keeps the books of the demo: balances by mint in token accounts, wallets and vault, and fees paid. */
import { ownAccount, tokenBalance } from '../../client/chain/index'
import type { VenueClient } from '../../client/index'
import { check, fact, tokens } from './report'
import type { Trader } from './trader'

/** Fees the traders have paid, by mint, from their wallets. */
export function feesOf(traders: readonly Trader[]): Map<string, bigint> {
  const fees = new Map<string, bigint>()
  for (const { wallet } of traders) {
    for (const { mint, amount } of wallet.state.fees) {
      fees.set(mint, (fees.get(mint) ?? 0n) + BigInt(amount))
    }
  }
  return fees
}

export type MintName = { mint: string; name: string; decimals: number }
type Holding = { in_accounts: bigint; in_notes: bigint }
type Balances = Map<string, Holding>

/** By trader and mint, from the chain and the wallets, never from the venue. */
export async function readBalances(traders: Trader[], mints: MintName[]): Promise<Balances> {
  const balances: Balances = new Map()
  for (const trader of traders) {
    for (const { mint } of mints) {
      const in_accounts = await tokenBalance(trader.chain, ownAccount(trader.chain, mint).bytes)
      balances.set(`${trader.name}/${mint}`, { in_accounts, in_notes: trader.wallet.balance(mint) })
    }
  }
  return balances
}

/** One line for each trader and mint: what the account and the notes held, and what they hold. */
export function printBalances(before: Balances, after: Balances, traders: Trader[], mints: MintName[]): void {
  for (const trader of traders) {
    for (const { mint, name, decimals } of mints) {
      const [had, has] = [before, after].map((balances) => balances.get(`${trader.name}/${mint}`)!)
      const change = (held: keyof Holding) =>
        `${tokens(had![held], decimals)} -> ${tokens(has![held], decimals)}`
      fact(`${trader.name} ${name}`, `account ${change('in_accounts')}, notes ${change('in_notes')}`)
    }
  }
}

function total(balances: Balances, mint: string): bigint {
  let sum = 0n
  for (const [name, holding] of balances) {
    if (name.endsWith(`/${mint}`)) sum += holding.in_accounts + holding.in_notes
  }
  return sum
}

/** Checks per mint that the traders' total before equals the total after plus fees, to the last unit. */
export function checkSums(
  before: Balances,
  after: Balances,
  fees: Map<string, bigint>,
  mints: MintName[],
): void {
  for (const { mint, name, decimals } of mints) {
    const [had, have, paid] = [total(before, mint), total(after, mint), fees.get(mint) ?? 0n]
    const evidence = `${tokens(had, decimals)} = ${tokens(have, decimals)} + fees ${tokens(paid, decimals)}`
    check(had === have + paid, `${name}: before = after + fees`, evidence)
  }
}

/** Checks that the vault's balance equals its liabilities: every note plus all fees. */
export async function checkVault(
  client: VenueClient,
  traders: Trader[],
  fees_ever: Map<string, bigint>,
  mints: MintName[],
): Promise<void> {
  const { mints: reported } = await client.transparency()
  for (const { mint, name, decimals } of mints) {
    const account = reported.find((one) => one.mint === mint)
    const vault = account === undefined ? undefined : await readVault(traders[0]!, account.vault)
    const notes = traders.reduce((sum, trader) => sum + trader.wallet.balance(mint), 0n)
    const owed = notes + (fees_ever.get(mint) ?? 0n)
    const equal = vault === owed && account?.vault_balance === String(vault)
    const evidence = tokens(vault ?? 0n, decimals)
    check(equal, `${name}: vault on chain = notes + fees = what /transparency reports`, evidence)
  }
}

async function readVault(trader: Trader, vault: string): Promise<bigint> {
  const { value } = await trader.chain.rpc
    .getTokenAccountBalance(vault as never, { commitment: 'confirmed' })
    .send()
  return BigInt(value.amount)
}
