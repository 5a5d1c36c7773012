/** The wallet: one seed, also as 24 words, the counters of its derived values, its notes and its open orders. */

import { entropyToMnemonic, mnemonicToEntropy } from '@scure/bip39'
import { wordlist } from '@scure/bip39/wordlists/english.js'
import { encodeBase58 } from '../../protocol/base58'
import { deriveDepositBlinding, deriveTradingKey } from '../../protocol/notes/derive'
import { publicKeyOf, sign } from '../../protocol/sign'
import { TacitError } from '../../protocol/tacit_error'
import type { Amount } from '../../protocol/units'
import type { SentCommand } from './prepare'

/** A note of the wallet. `pending`: backs a command; `spent`: consumed; `free`: usable. */
export type WalletNote = {
  commitment: string
  key_index: number
  mint: string
  amount: string
  blinding: string
  /** Present exactly on deposit-form notes (deposits and refunds). */
  leaf_index?: number
  state: 'free' | 'pending' | 'spent'
  origin: 'deposit' | 'proceeds' | 'change' | 'refund' | 'reshape'
}
/** The facts of an order that its outputs are recomputed from. */
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
  /** Base units; absent in files of earlier versions. */
  amount?: string
  /** Commitment of the note that backs the rest of the order. */
  collateral: string
  /** Commitments of the notes its fills consumed, by fill index. */
  consumed: string[]
  /** Base units of the fills absorbed. */
  filled: string
  /** Base units of all fills; known once the order is final. */
  filled_final?: string
  /** Quote amount of the fills absorbed, and the fees charged for them. */
  quote: string
  fee: string
  open: boolean
}
/** A withdrawal or reshape that the wallet has prepared. */
export type WalletPayment = {
  id: string
  kind: 'withdrawal' | 'reshape'
  key_index: number
  command: number
  inputs: string[]
  amounts: string[]
  /** The note that the program made instead of an impossible payout. */
  refund?: { commitment: string; mint: string; generation: number }
}
/** A signed request that the venue may have: it was saved before it was sent, and its outcome is not saved yet. */
export type WalletRequest = SentCommand & {
  /** Of the order, withdrawal or reshape; of another command, its key and nonce. */
  id: string
  key_index: number
  /** Journal seq of the newest receipt seen before: that of this request is later. */
  after_seq: number
}
export type WalletState = {
  /** By key index: note-creating commands so far, deposits so far, cancel nonces used. */
  keys: { commands: number; deposits: number; cancels: number }[]
  notes: WalletNote[]
  orders: WalletOrder[]
  payments: WalletPayment[]
  /** Paid so far, by mint. */
  fees: { mint: string; amount: string }[]
  /** Seq of the last account event absorbed. */
  seq: number
  /** Of these notes, orders and events, as base58, from the first use on; absent in files of earlier versions. */
  vault?: { genesis_hash: string; program_id: string }
  /** Of the vault of these orders, payments and events; absent in files of earlier versions, which are of generation 0. */
  generation?: number
  /** Requests whose outcome is open, in the order of signing. */
  requests?: WalletRequest[]
}

/**
 * Holds the trading keys and signs with them: `seedSigner`, or a separate device. Notes, anchors and order ids still derive
 * from the wallet's seed: the seed alone then reads the wallet and moves nothing.
 */
export type Signer = {
  /** 32 bytes. */
  publicKey(key_index: number): Uint8Array
  /** Ed25519, 64 bytes. @param body a canonical body, or the message of a transaction */
  sign(key_index: number, body: Uint8Array): Uint8Array
}
export function seedSigner(seed: Uint8Array): Signer {
  return {
    publicKey: (key_index) => publicKeyOf(deriveTradingKey(seed, key_index)),
    sign: (key_index, body) => sign(deriveTradingKey(seed, key_index), body),
  }
}

export class Wallet {
  /** Notes by commitment; follows `state.notes`, which grows at its end or is replaced. */
  #by_commitment = new Map<string, WalletNote>()
  #indexed: { notes: WalletNote[] | undefined; count: number } = { notes: undefined, count: 0 }

  constructor(
    /** 32 bytes; every key, blinding, anchor and order id derives from it. */
    readonly seed: Uint8Array,
    readonly state: WalletState = { keys: [], notes: [], orders: [], payments: [], fees: [], seq: 0 },
    readonly signer: Signer = seedSigner(seed),
  ) {
    if (seed.length !== 32) throw new RangeError('a seed has 32 bytes')
  }

  tradingKey(key_index: number): Uint8Array {
    return this.signer.publicKey(key_index)
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
   * A known note keeps its state, except that a free one becomes pending: recovery from the chain may have found it
   * before the event that names the command it backs.
   */
  addNote(note: WalletNote): void {
    const known = this.note(note.commitment)
    if (known === undefined) this.state.notes.push(note)
    else if (known.state === 'free' && note.state === 'pending') known.state = 'pending'
  }
  /** Frees the pending notes of a command that will not settle. */
  release(commitments: readonly string[]): void {
    for (const commitment of commitments) {
      const note = this.note(commitment)
      if (note?.state === 'pending') note.state = 'free'
    }
  }
  /** Whether an order may still consume the note: it is open, or fills of it are to be absorbed. */
  isBacking(commitment: string): boolean {
    const consumes = ({ open, filled, filled_final = filled }: WalletOrder) => open || filled !== filled_final
    return this.state.orders.some((order) => order.collateral === commitment && consumes(order))
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
  /** Base units of a mint in unspent notes, pending ones included. */
  balance(mint: string): Amount {
    const owned = this.state.notes.filter((note) => note.mint === mint && note.state !== 'spent')
    return owned.reduce((sum, note) => sum + BigInt(note.amount), 0n)
  }
  payFee(mint: string, amount: Amount): void {
    const paid = this.state.fees.find((fee) => fee.mint === mint)
    if (paid === undefined) this.state.fees.push({ mint, amount: String(amount) })
    else paid.amount = String(BigInt(paid.amount) + amount)
  }
  /** The smallest free note that covers `amount`. */
  noteFor(mint: string, amount: Amount): WalletNote | undefined {
    const fitting = this.freeNotes(mint).filter((note) => BigInt(note.amount) >= amount)
    return fitting.sort((a, b) => (BigInt(a.amount) < BigInt(b.amount) ? -1 : 1))[0]
  }
}

type TakenBlinding = {
  blinding: Uint8Array
  /** For a transaction that will never land; no effect once a later blinding was taken. */
  giveBack(): void
}

/**
 * The next deposit blinding of a key, for a deposit or for the refund of an exit. Two copies of a seed in use at once may
 * take the same one: the notes and nullifiers still differ by leaf index, but the chain then shows their common owner.
 */
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

/** The words are not 24 of the list, or their checksum is wrong. */
export class NotSeedWords extends TacitError {
  override readonly name = 'NotSeedWords'
  readonly code = 'not_seed_words'
  constructor() {
    super('these are not the 24 words of a seed: compare each word and their order', {})
  }
}

/** @param seed 32 bytes */
export const wordsOfSeed = (seed: Uint8Array): string => entropyToMnemonic(seed, wordlist)

/** @param words in any case, between any spaces. @throws NotSeedWords, which never contains them */
export function seedOfWords(words: string): Uint8Array {
  let seed: Uint8Array
  try {
    seed = mnemonicToEntropy(words.trim().toLowerCase().split(/\s+/).join(' '), wordlist)
  } catch {
    throw new NotSeedWords()
  }
  if (seed.length !== 32) throw new NotSeedWords()
  return seed
}
