/** A random trading session: orders, cancels, merges, splits and withdrawals, paid and unpayable, of several traders. */
import type { WalletNote } from '../../client/wallet/wallet'
import { quoteAmount } from '../../protocol/units'
import type { Random } from '../faults/kit/random'
import { JTO, USDC } from '../kit/venue/embedded_site'
import type { WalletTrader } from './wallet_trader'

const LOT = 1_000_000n
const PRICE = 100_000_000n
const TICK = 10_000n
/** A withdrawal costs this, and pays at least ten times as much. */
const WITHDRAW_FEE = 100n
const WITHDRAW_MIN = 1_000n

type Destinations = { good: Record<string, string>; unusable: string }

/** Counts what was done, so that a session that did nothing is seen. */
type Tally = Record<string, number>

export class RandomSession {
  readonly tally: Tally = {}
  constructor(
    private readonly traders: readonly WalletTrader[],
    private readonly random: Random,
    private readonly destinations: Destinations,
  ) {}

  /** Sides are swapped half way, so that proceeds are spent again; no account trades with itself. */
  async play(actions: number): Promise<void> {
    for (let at = 0; at < actions; at++) {
      const second_half = at * 2 >= actions
      if (at * 2 === actions) for (const trader of this.traders) await this.cancelAll(trader)
      const index = this.random.integer(this.traders.length)
      const trader = this.traders[index]!
      await trader.pass(1)
      await trader.sync()
      await this.act(trader, (index % 2 === 1) === second_half ? USDC : JTO)
    }
  }

  /** Resolves once everything of this trader is final on chain. */
  async windUp(trader: WalletTrader): Promise<void> {
    await this.cancelAll(trader)
    await trader.until(() => trader.settled)
  }

  private async cancelAll(trader: WalletTrader): Promise<void> {
    await trader.sync()
    for (const order of trader.wallet.state.orders)
      if (order.open) this.count('cancel', await trader.cancel(order.order_id))
  }

  private async act(trader: WalletTrader, offers: string): Promise<void> {
    const free = trader.wallet.state.notes.filter(({ state }) => state === 'free')
    const note = free.length > 0 ? this.random.pick(free) : undefined
    const live = trader.wallet.state.orders.filter((order) => order.open)
    const open = live.length > 0 ? this.random.pick(live) : undefined
    const dice = this.random.integer(20)
    if (dice < 2 && open !== undefined) this.count('cancel', await trader.cancel(open.order_id))
    else if (note === undefined) return
    else if (dice < 14 && note.mint === offers) await this.place(trader, note)
    else if (dice < 16 && dice >= 14) await this.withdraw(trader, note)
    else if (dice >= 16) await this.reshape(trader, note)
  }

  private count(what: string, refused: string | undefined): void {
    const name = refused === undefined ? what : `${what} ${refused}`
    this.tally[name] = (this.tally[name] ?? 0) + 1
  }

  private async place(trader: WalletTrader, note: WalletNote): Promise<void> {
    const sells = note.mint === JTO
    const better = BigInt(this.random.integer(9) - 2) * TICK
    const price_limit = sells ? PRICE - better : PRICE + better
    const most = sells ? BigInt(note.amount) : (BigInt(note.amount) * 990_000_000n) / price_limit
    const lots = Number(most / LOT)
    if (lots < 1) return
    const amount = BigInt(1 + this.random.integer(Math.min(lots, 2_000))) * LOT
    if (quoteAmount(amount, price_limit, 9) === 0n) return
    const type = this.random.pick(['limit', 'limit', 'ioc'] as const)
    const answer = await trader.place(note, { side: sells ? 'sell' : 'buy', type, amount, price_limit })
    this.count('place', 'code' in answer ? answer.code : undefined)
  }

  /** In part or whole, to an account that can be paid or not. */
  private async withdraw(trader: WalletTrader, note: WalletNote): Promise<void> {
    const whole = BigInt(note.amount) - WITHDRAW_FEE
    if (whole < WITHDRAW_MIN) return
    const amount = this.random.integer(2) === 0 ? whole : WITHDRAW_MIN + (whole - WITHDRAW_MIN) / 3n
    const { good, unusable } = this.destinations
    const destination = this.random.integer(2) === 0 ? good[note.mint]! : unusable
    const kind = destination === unusable ? 'withdraw unpayable' : 'withdraw'
    this.count(kind, await trader.withdraw(note, destination, amount))
  }

  private async reshape(trader: WalletTrader, note: WalletNote): Promise<void> {
    const alike = trader.wallet.state.notes.filter(
      (one) => one.state === 'free' && one.mint === note.mint && one.key_index === note.key_index,
    )
    if (alike.length > 1 && this.random.integer(2) === 0) {
      const merged = alike.slice(0, 2 + this.random.integer(3))
      const sum = merged.reduce((total, one) => total + BigInt(one.amount), 0n)
      this.count('merge', await trader.reshape(merged, [sum]))
      return
    }
    const part = BigInt(note.amount) / 3n
    if (part > 0n)
      this.count('split', await trader.reshape([note], [part, part, BigInt(note.amount) - 2n * part]))
  }
}

/** Two traders with two keys each: the first rich in USDC, the second in JTO, and both have some of each. */
export async function fundTraders(traders: readonly WalletTrader[]): Promise<void> {
  const rich: Record<string, bigint> = { [USDC]: 400_000_000n, [JTO]: 4_000_000_000n }
  await Promise.all(
    traders.map(async (trader, at) => {
      const [much, little] = at % 2 === 0 ? ([USDC, JTO] as const) : ([JTO, USDC] as const)
      await trader.deposit(much, 0, ...[1n, 2n, 4n, 5n, 8n].map((part) => rich[much]! / part))
      await trader.deposit(little, 1, rich[little]! / 8n, rich[little]! / 8n)
    }),
  )
}
