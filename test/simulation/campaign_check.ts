/** Compares a wallet with the records of venue and chain, computed from their own events. */
import { collateralOf, preparePlace } from '../../client/wallet/prepare'
import { Wallet } from '../../client/wallet/wallet'
import { equalBytes, fromHex, toHex } from '../../protocol/bytes'
import { nullifierOf } from '../../protocol/notes/notes'
import type { AccountEvent, Fill, Order, Withdrawal } from '../../protocol/wire/trading'
import { depositNote } from '../client/wallet_trader'
import { Ledger } from '../kit/venue/memory_chain'
import type { TestVenue } from '../kit/venue/open_test_venue'
import type { ChainFacts, World } from './worlds/world'

/** Leaves and nullifiers of a ledger, read as it grows. */
export class LedgerFacts {
  readonly leaves = new Set<string>()
  readonly spent = new Set<string>()
  private batches = 0
  constructor(private readonly ledger: Ledger) {}
  read(): void {
    const { notes, settled } = this.ledger
    while (this.leaves.size < notes.leaf_count) this.leaves.add(toHex(notes.leaf(this.leaves.size)))
    for (; this.batches < settled.length; this.batches++)
      for (const one of settled[this.batches]!.nullifiers) this.spent.add(toHex(one))
  }
  /** The ledger was put back. */
  forget(): void {
    this.leaves.clear()
    this.spent.clear()
    this.batches = 0
  }
}

export async function everyPage<T>(
  read: (page: { after: number; limit: number }) => Promise<{ items: T[]; next_after: number | null }>,
): Promise<T[]> {
  const all: T[] = []
  for (let after: number | null = 0; after !== null; ) {
    const page: { items: T[]; next_after: number | null } = await read({ after, limit: 500 })
    all.push(...page.items)
    after = page.next_after
  }
  return all
}

/** Every difference, one line each. @param deposited base units by mint */
export function differences(
  wallet: Wallet,
  { facts, mints }: { facts: ChainFacts; mints: World['mints'] },
  venue: { orders: Order[]; events: AccountEvent[]; deposited: ReadonlyMap<string, bigint> },
): string[] {
  const found: string[] = []
  for (const note of wallet.state.notes) {
    const nullifier = toHex(nullifierOf(fromHex(note.commitment, 32)!, fromHex(note.blinding, 32)!))
    const [is_leaf, is_spent] = [facts.leaves.has(note.commitment), facts.spent.has(nullifier)]
    const truth = is_leaf ? (is_spent ? 'spent' : 'free') : 'absent'
    // A note that is made and consumed within one settlement is never a leaf.
    if (truth === 'absent' && note.state === 'spent') continue
    if (truth !== note.state) found.push(`a ${note.origin} note is ${note.state}, on chain ${truth}`)
  }
  const owed = owedTo(wallet, mints, venue)
  for (const mint of [mints.base, mints.quote])
    if (wallet.balance(mint) !== owed.balances.get(mint))
      found.push(
        `${mint === mints.base ? 'base' : 'quote'} ${wallet.balance(mint)}, owed ${owed.balances.get(mint)}`,
      )
  for (const [mint, fee] of owed.fees) {
    const paid = wallet.state.fees.find((one) => one.mint === mint)?.amount ?? '0'
    if (BigInt(paid) !== fee) found.push(`fees ${paid}, charged ${fee}`)
  }
  for (const order of venue.orders) {
    const own = wallet.order(order.order_id)
    if (own === undefined) found.push(`order ${order.order_id} is not in the wallet`)
    else if (own.open || own.filled !== order.filled_amount)
      found.push(
        `order ${order.order_id} is open ${own.open}, filled ${own.filled}, not ${order.filled_amount}`,
      )
  }
  return found
}

/** The other side of the market: one account buys, one sells, so that none trades with itself. */
export class Maker {
  private readonly wallet = new Wallet(crypto.getRandomValues(new Uint8Array(32)))
  constructor(
    private readonly name: string,
    private readonly side: 'buy' | 'sell',
  ) {}
  async provision(open: TestVenue): Promise<void> {
    await open.venue.provision({ account_id: this.name, version: 1, orders_live_max: 10_000, keys_max: 100 })
  }
  /** On a deposit that covers it. */
  async place(open: TestVenue, amount: bigint, price_limit: bigint): Promise<void> {
    const { ledger, venue } = open
    const instrument = venue.instrument('SOL-USDC')
    const terms = { instrument, side: this.side, amount, price_limit, expiry_slot: ledger.slot + 20 } as const
    const from = ledger.notes.leaf_count
    const side = this.side === 'buy' ? 'quote' : 'base'
    const { amount: least } = collateralOf(terms)
    const note = depositNote(ledger, this.wallet, { side, amount: least, key_index: 0 })
    await open.chain.finalizeLeaves(from)
    const request = preparePlace(this.wallet, fromHex(venue.identity().venue, 32)!, terms, note)
    await venue.place(this.name, request)
  }
}

/** The account's notes and payments by the venue's own events. */
function owedTo(
  wallet: Wallet,
  mints: World['mints'],
  { events, deposited }: { events: AccountEvent[]; deposited: ReadonlyMap<string, bigint> },
) {
  const [balances, fees] = [new Map(deposited), new Map<string, bigint>()]
  const add = (to: Map<string, bigint>, mint: string, amount: bigint) =>
    to.set(mint, (to.get(mint) ?? 0n) + amount)
  for (const { kind, data } of events) {
    if (kind === 'fill.matched' || kind === 'fill.voided') {
      const fill = data as Fill
      const way = (fill.side === 'buy' ? 1n : -1n) * (kind === 'fill.matched' ? 1n : -1n)
      const fee = BigInt(fill.fee) * (kind === 'fill.matched' ? 1n : -1n)
      add(balances, mints.base, way * BigInt(fill.amount))
      add(balances, mints.quote, -way * BigInt(fill.quote_amount) - fee)
      add(fees, mints.quote, fee)
    }
    if (kind === 'withdrawal.accepted' || kind === 'withdrawal.voided') {
      const { commitment, amount, fee } = data as Withdrawal
      const mint = wallet.note(commitment)?.mint ?? 'none'
      const way = kind === 'withdrawal.accepted' ? 1n : -1n
      add(balances, mint, -way * (BigInt(amount) + BigInt(fee)))
      add(fees, mint, way * BigInt(fee))
    }
  }
  return { balances, fees }
}

export type Deposit = {
  mint: string
  amount: bigint
  leaf_index: number
  commitment: Uint8Array
  nullifier: Uint8Array
}
const deposits = new WeakMap<Ledger, Map<number, Deposit>>()
const { deposit } = Ledger.prototype
Ledger.prototype.deposit = function (note) {
  const made = deposit.call(this, note)
  const nullifier = nullifierOf(made.commitment, note.blinding)
  const all = deposits.get(this) ?? new Map<number, Deposit>()
  deposits.set(this, all.set(made.leaf_index, { ...note, ...made, mint: toHex(note.mint), nullifier }))
  return made
}
/** Notes that are leaves. */
export const depositsOf = (ledger: Ledger): Deposit[] => {
  const all = [...(deposits.get(ledger)?.values() ?? [])]
  return all.filter((one) => isLeaf(ledger, one.leaf_index, one.commitment))
}
const isLeaf = ({ notes }: Ledger, index: number, leaf: Uint8Array): boolean =>
  index < notes.leaf_count && equalBytes(notes.leaf(index), leaf)

/** The vault's own statement. */
export type Vault = {
  config: { last_batch: number }
  settled: readonly { nullifiers: readonly Uint8Array[] }[]
  liabilities: ReadonlyMap<string, bigint>
}
/** Per mint: the vault owes fees, notes, payouts that have not landed and deposits that the venue was not shown. */
export function booksBroken(
  state: TestVenue['engine']['state'],
  vault: Vault,
  deposited: readonly Deposit[],
): string[] {
  const owed = state.mints.map((_, mint) => state.settlement.fees[mint]!)
  const numbers = new Map(state.mints.map(({ bytes }, mint) => [toHex(bytes), mint]))
  for (const note of state.notes.values()) if (note.status !== 'spent') owed[note.mint]! += note.amount
  for (const { batch_id, hashed, outputs, payouts } of state.settlement.batches.values()) {
    if (hashed === undefined) for (const { note } of outputs) owed[note.mint]! += note.amount
    if (batch_id <= vault.config.last_batch) continue
    for (const payout of payouts) if (payout.kind !== 'exit') owed[payout.note.mint]! += payout.amount
  }
  // The state drops spent notes and their nullifiers once they are final and in a snapshot.
  const spent = new Set(vault.settled.flatMap(({ nullifiers }) => nullifiers.map(toHex)))
  for (const { mint, amount, commitment, nullifier } of deposited) {
    if (state.notes.has(commitment)) continue
    if (!state.nullifiers.has(nullifier) && !spent.has(toHex(nullifier))) owed[numbers.get(mint)!]! += amount
  }
  return state.mints.flatMap(({ text, bytes }, mint) => {
    const due = vault.liabilities.get(toHex(bytes)) ?? 0n
    return owed[mint] === due ? [] : [`${owed[mint]} of ${text} is owed, the vault says ${due}`]
  })
}
