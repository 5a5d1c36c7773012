/**
 * Prints the demo's numbered chapters, facts in columns and progress, keeps its books (balances by mint, fees paid), and ends
 * the story at the first failed check.
 */
import { ownAccount, tokenBalance } from '../../client/chain/index'
import { formatAmount, type VenueClient } from '../../client/index'
import { DEMO_EVENT_MAX_MS } from '../../client/limits'
import type { Amount } from '../../protocol/units'
import type { Trader } from './trader'

const STYLES = { bold: 1, dim: 2, red: 31, green: 32 } as const
const PROGRESS_MS = 1_000
let chapter_number = 0

/** Escape codes only on a terminal, and not with NO_COLOR. */
function styled(style: keyof typeof STYLES, text: string): string {
  if (!process.stdout.isTTY || process.env['NO_COLOR']) return text
  return `\x1b[${STYLES[style]}m${text}\x1b[0m`
}

/** Prints a numbered heading and the sentence that explains the chapter. */
export function chapter(title: string, sentence?: string): void {
  chapter_number++
  console.log(`\n${styled('bold', `${chapter_number}. ${title}`)}`)
  if (sentence !== undefined) console.log(`   ${styled('dim', sentence)}`)
}

/** Shows on a terminal the awaited step and for how many seconds, until `work` settles. */
export async function waiting<T>(what: string, work: Promise<T>): Promise<T> {
  if (!process.stdout.isTTY) return work
  let seconds = 0
  const progress = setInterval(
    () => process.stdout.write(`\r   waits for ${what}: ${++seconds} s`),
    PROGRESS_MS,
  )
  try {
    return await work
  } finally {
    clearInterval(progress)
    process.stdout.write('\r\x1b[K')
  }
}

export function fact(label: string, value: string | number): void {
  console.log(`   ${label.padEnd(24)} ${value}`)
}

/** A promise of the venue that did not hold. */
export class DemoFailed extends Error {
  constructor(
    message: string,
    /** The venue's code, where its refusal is the failure. */
    readonly code?: string,
  ) {
    super(message)
  }
}

const DEMO_RETRY_MS = 500
/** The codes of a venue whose chain, held up with it, has not shown slots, epoch or anchor lately: nothing was applied. */
const UNAVAILABLE: ReadonlySet<unknown> = new Set(['lease_lost', 'reopening', 'unanchored'])

/**
 * Retries requests that the venue cannot serve for a moment, for example after the machine was paused for longer than the
 * lease.
 */
export async function available<T>(attempt: () => Promise<T>): Promise<T> {
  const deadline = performance.now() + DEMO_EVENT_MAX_MS
  for (;;) {
    try {
      return await attempt()
    } catch (error) {
      if (!UNAVAILABLE.has(Object(error).code) || performance.now() > deadline) throw error
    }
    await Bun.sleep(DEMO_RETRY_MS)
  }
}

/** Prints the check with its evidence. @throws DemoFailed when it does not hold. */
export function check(holds: boolean, what: string, evidence = ''): void {
  const verdict = holds ? styled('green', 'ok') : styled('red', 'FAILED')
  console.log(`   [${verdict}] ${what}${evidence === '' ? '' : `  (${evidence})`}`)
  if (!holds) throw new DemoFailed(what)
}

/** Base units as a decimal text. */
export const tokens = (amount: bigint, decimals: number): string => formatAmount(amount as Amount, decimals)

/** First and last eight characters. */
export function short(text: string): string {
  return text.length <= 20 ? text : `${text.slice(0, 8)}...${text.slice(-8)}`
}

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

/** One line for each trader and mint: the amounts of account and notes before and now. */
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
