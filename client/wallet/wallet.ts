/** The wallet: one seed, the counters of what was derived from it, its notes and its open orders. */
import { encodeBase58 } from '../../protocol/base58'
import { deriveDepositBlinding, deriveTradingKey } from '../../protocol/notes/derive'
import { publicKeyOf } from '../../protocol/sign'

// The wallet: one seed, the counters of what was derived from it, its notes and its open orders.

/** A note of the wallet. `pending`: backs a command; `spent`: consumed; `free`: usable. */
export type WalletNote = {
  commitment: string
  key_index: number
  mint: string
  amount: string
  blinding: string
  /** Exactly for deposit-form notes (deposits and refunds). */
  leaf_index?: number
  state: 'free' | 'pending' | 'spent'
  origin: 'deposit' | 'proceeds' | 'change' | 'refund' | 'reshape'
}
/** What the wallet must remember of an order to recognise its outputs. */
export type WalletOrder = {
  order_id: string
  key_index: number
  command: number
  nonce: string
  anchor_count: number
  symbol: string
  side: 'buy' | 'sell'
  base_mint: string
  quote_mint: string
  base_decimals: number
  fee_bps: number
  price_limit: string
  /** Commitment of the note that backs what remains. */
  collateral: string
  /** Commitments of the notes its fills consumed, by fill index. */
  consumed: string[]
  /** Base units of the fills absorbed, and of all there will be once the order is final. */
  filled: string
  filled_final?: string
  /** Quote amount of the fills absorbed, and the fees charged for them. */
  quote: string
  fee: string
  open: boolean
}
/** A withdrawal or reshape under way. */
export type WalletPayment = {
  id: string
  kind: 'withdrawal' | 'reshape'
  key_index: number
  command: number
  inputs: string[]
  amounts: string[]
  /** The note the program made in place of a payout that could not be made. */
  refund?: { commitment: string; mint: string; generation: number }
}
export type WalletState = {
  /** Per key index: note-creating commands so far, deposits so far, cancel nonces used. */
  keys: { commands: number; deposits: number; cancels: number }[]
  notes: WalletNote[]
  orders: WalletOrder[]
  payments: WalletPayment[]
  /** Paid so far, by mint. */
  fees: { mint: string; amount: string }[]
  /** Last account event absorbed. */
  seq: number
}

export class Wallet {
  /** Notes by commitment; follows `state.notes`, which grows at its end or is replaced. */
  #by_commitment = new Map<string, WalletNote>()
  #indexed: { notes: WalletNote[] | undefined; count: number } = { notes: undefined, count: 0 }

  constructor(
    readonly seed: Uint8Array,
    readonly state: WalletState = { keys: [], notes: [], orders: [], payments: [], fees: [], seq: 0 },
  ) {
    if (seed.length !== 32) throw new RangeError('a seed has 32 bytes')
  }

  tradingSeed(key_index: number): Uint8Array {
    return deriveTradingKey(this.seed, key_index)
  }
  tradingKey(key_index: number): Uint8Array {
    return publicKeyOf(this.tradingSeed(key_index))
  }
  tradingKeyText(key_index: number): string {
    return encodeBase58(this.tradingKey(key_index))
  }
  counters(key_index: number): WalletState['keys'][number] {
    while (this.state.keys.length <= key_index) this.state.keys.push({ commands: 0, deposits: 0, cancels: 0 })
    return this.state.keys[key_index]!
  }
  note(commitment: string): WalletNote | undefined {
    const { notes } = this.state
    if (this.#indexed.notes !== notes || this.#indexed.count > notes.length) {
      this.#by_commitment.clear()
      this.#indexed = { notes, count: 0 }
    }
    for (const note of notes.slice(this.#indexed.count)) this.#by_commitment.set(note.commitment, note)
    this.#indexed.count = notes.length
    return this.#by_commitment.get(commitment)
  }
  /**
   * A note already known stays as it is; only one that the chain told first, as free, may turn out to back a command that
   * is still under way.
   */
  addNote(note: WalletNote): void {
    const known = this.note(note.commitment)
    if (known === undefined) this.state.notes.push(note)
    else if (known.state === 'free' && note.state === 'pending') known.state = 'pending'
  }
  order(order_id: string): WalletOrder | undefined {
    return this.state.orders.find((order) => order.order_id === order_id)
  }
  payment(id: string): WalletPayment | undefined {
    return this.state.payments.find((payment) => payment.id === id)
  }
  freeNotes(mint: string): WalletNote[] {
    return this.state.notes.filter((note) => note.mint === mint && note.state === 'free')
  }
  /** Everything the wallet owns of a mint, notes that back commands included. */
  balance(mint: string): bigint {
    const owned = this.state.notes.filter((note) => note.mint === mint && note.state !== 'spent')
    return owned.reduce((sum, note) => sum + BigInt(note.amount), 0n)
  }
  payFee(mint: string, amount: bigint): void {
    const paid = this.state.fees.find((fee) => fee.mint === mint)
    if (paid === undefined) this.state.fees.push({ mint, amount: String(amount) })
    else paid.amount = String(BigInt(paid.amount) + amount)
  }
  /** The smallest free note that covers `amount`. */
  noteFor(mint: string, amount: bigint): WalletNote | undefined {
    const fitting = this.freeNotes(mint).filter((note) => BigInt(note.amount) >= amount)
    return fitting.sort((a, b) => (BigInt(a.amount) < BigInt(b.amount) ? -1 : 1))[0]
  }
}

// The next blinding of a key's deposits: of a deposit, or of the refund of an exit.
//
// Two copies of a seed that are used at once may take the same one. Nothing is lost by it, since the leaf index makes the
// notes and their nullifiers differ; but whoever reads the chain sees that both have one owner.

type TakenBlinding = {
  blinding: Uint8Array
  /** For a transaction that never will land; without effect once a later blinding was taken. */
  giveBack(): void
}

export function takeDepositBlinding(wallet: Wallet, key_index: number): TakenBlinding {
  const counters = wallet.counters(key_index)
  const taken = counters.deposits++
  return {
    blinding: deriveDepositBlinding(wallet.seed, key_index, taken),
    giveBack() {
      if (counters.deposits === taken + 1) counters.deposits = taken
    },
  }
}
