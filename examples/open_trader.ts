/** Opens a session on the venue that `start` runs on this machine, and keeps books of its fills. */
import { readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import * as tacit from '../client/index'

export const SYMBOL = 'SOL-USDC'
/** Changes by the fills of this run, in base units of each mint; the wallet is not asked. */
type Books = { fills: number; base: bigint; quote: bigint; fees: bigint }
type Trader = { session: tacit.Session; books: Books }

/** The command line lacks a word. */
export class Misused extends Error {
  constructor(form: string) {
    super(`usage: bun examples/${basename(process.argv[1]!)} ${form}`)
  }
}

/** From now on an error that explains itself ends the program with that one line, any other with its stack. */
export function explainErrors(): void {
  process.once('uncaughtException', (error) => {
    console.error(error instanceof tacit.TacitError || error instanceof Misused ? error.message : error)
    process.exit(1)
  })
}

/** @param args folder of the venue's data, wallet file, login file */
export async function openTrader([data, wallet, login_path]: string[]): Promise<Trader> {
  if (data === undefined || wallet === undefined || login_path === undefined)
    throw new Misused('DATA WALLET LOGIN SECONDS')
  const read = (path: string): string => readFileSync(path, 'utf8')
  const facts = JSON.parse(read(join(data, 'laptop.json')))
  const login = JSON.parse(read(login_path)) as tacit.Login
  const books: Books = { fills: 0, base: 0n, quote: 0n, fees: 0n }
  const session = await tacit.Session.open({
    url: facts.url,
    // Read before each verification: a laptop's chain may serve at another port after a restart.
    policy: () => read(facts.policy),
    // The simulated enclave signs its own collateral; without this line it is fetched from the policy's service.
    connect: { collateral: JSON.parse(read(facts.collateral)) },
    login,
    account_id: login.account_id,
    wallet,
    event: ({ kind, data: fill }) => {
      if (kind === 'fill.matched') book(books, fill as tacit.Fill)
    },
  })
  return { session, books }
}

function book(books: Books, fill: tacit.Fill): void {
  const sign = fill.side === 'buy' ? 1n : -1n
  books.fills += 1
  books.base += sign * BigInt(fill.amount)
  books.quote -= sign * BigInt(fill.quote_amount) + BigInt(fill.fee)
  books.fees += BigInt(fill.fee)
}

/** Whether to trade on: until the time is over, or Ctrl-C. */
export function trading(seconds: number): () => boolean {
  const over = performance.now() + seconds * 1_000
  let stopped = false
  process.once('SIGINT', () => {
    stopped = true
  })
  return () => !stopped && performance.now() < over
}

/**
 * Places an order; undefined when the venue rejected it, or when no note covers it.
 * @throws VenueProblem `key_bound`: the wallet traded on another account, so each further order would be rejected alike
 */
export async function place(session: tacit.Session, order: tacit.SessionOrder): Promise<string | undefined> {
  const outcome = await known(session, () => session.place(order, { merge: false }))
  if (outcome?.status === 'refused' && outcome.problem.code === 'key_bound')
    throw new tacit.VenueProblem(outcome.problem)
  return outcome?.status === 'accepted' ? outcome.id : undefined
}

/** Cancels an order unless it has ended, and waits until it has, with all its fills. */
export async function end(session: tacit.Session, order_id: string): Promise<void> {
  if (session.wallet.order(order_id)?.open) await known(session, () => session.cancel(order_id))
  await ended(session, order_id)
}

export function ended(session: tacit.Session, order_id: string): Promise<boolean> {
  return session.until((wallet) => {
    const order = wallet.order(order_id)!
    // A rejected order never had a fill.
    return (!order.open && order.filled === (order.filled_final ?? '0')) || undefined
  })
}

/** The outcome, however long the venue is away; undefined when no note covers the order. */
async function known(
  session: tacit.Session,
  call: () => Promise<tacit.Outcome>,
): Promise<tacit.Outcome | undefined> {
  for (;;) {
    try {
      const outcome = await call()
      if (outcome.status !== 'unknown') return outcome
      call = () => session.settle(outcome.id)
    } catch (error) {
      if (error instanceof tacit.NoNote) return undefined
      const must_stop = [tacit.MustStop, tacit.SessionEnded, tacit.InexactValue, RangeError].some(
        (kind) => error instanceof kind,
      )
      if (must_stop) throw error
      await Bun.sleep(500)
    }
  }
}

/** Ends the session and prints its books, amounts as base units. */
export function close({ session, books }: Trader): void {
  const balances: Record<string, string> = {}
  for (const { mint } of session.wallet.state.notes) balances[mint] = String(session.wallet.balance(mint))
  session.close()
  const { fills, base, quote, fees } = books
  const shown = { fills, base: String(base), quote: String(quote), fees: String(fees), balances }
  console.log(JSON.stringify(shown))
}
