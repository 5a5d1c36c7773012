/** Traders of the tests with the client's wallet: on a venue without listeners, or one whose chain the test advances. */

import { expect } from 'bun:test'
import { type ChainAccess, openChainAccess } from '../../client/chain/chain_access'
import { airdrop, deposit, mintTo } from '../../client/chain/deposit'
import { ownAccount, tokenBalance } from '../../client/chain/read_vault'
import { absorbEvent, WalletMismatch } from '../../client/wallet/absorb'
import {
  dropRefused,
  dropRefusedPayment,
  type OrderTerms,
  prepareCancel,
  preparePlace,
  prepareReshape,
  prepareWithdrawal,
} from '../../client/wallet/prepare'
import { Wallet, type WalletNote, type WalletState } from '../../client/wallet/wallet'
import { encodeBase58 } from '../../protocol/base58'
import { fromHex, toHex } from '../../protocol/bytes'
import { deriveDepositBlinding } from '../../protocol/notes/derive'
import { Refusal } from '../../protocol/refusals'
import type {
  AccountEvent,
  Fill,
  Instrument,
  PlaceRequest,
  Reshape,
  Withdrawal,
} from '../../protocol/wire/trading'
import type { EmbeddedSite } from '../kit/venue/embedded_site'
import { BASE_MINT, QUOTE_MINT, type TestVenue } from '../kit/venue/open_test_venue'

const LIFE_SLOTS = 5_000
const FEE_LAMPORTS = 5_000_000_000n
/** Last events of fills, reshapes and withdrawals. */
const LAST = /^(fill|reshape)\.(finalized|voided)$|^withdrawal\.(paid|refunded|voided)$/
const STAGED = /^(fill|withdrawal|reshape)\./

type Terms = Omit<OrderTerms, 'instrument' | 'expiry_slot'>

export class WalletTrader {
  readonly wallet: Wallet
  readonly events: AccountEvent[] = []
  private constructor(
    readonly site: EmbeddedSite,
    readonly account_id: string,
    readonly chain: ChainAccess,
    seed: Uint8Array,
  ) {
    this.wallet = new Wallet(seed)
  }

  /** An account with a funded payer; its wallet is new. */
  static async open(site: EmbeddedSite, account_id: string): Promise<WalletTrader> {
    const random = () => crypto.getRandomValues(new Uint8Array(32))
    const chain = await openChainAccess(site.chain.url, random())
    await site.issue(account_id)
    await airdrop(chain, FEE_LAMPORTS)
    site.chain.advance(2)
    return new WalletTrader(site, account_id, chain, random())
  }

  get program_id(): string {
    return encodeBase58(this.site.chain.program_id!)
  }
  get venue_id(): Uint8Array {
    return fromHex(this.site.venue.identity().venue, 32)!
  }
  get instrument(): Instrument {
    return this.site.venue.instrument('SOL-USDC')
  }
  private get expiry_slot(): number {
    return this.site.venue.time().slot + LIFE_SLOTS
  }

  /** Deposits `amounts` of a mint side by side; resolves once the venue counts them all. */
  async deposit(mint: string, key_index: number, ...amounts: bigint[]): Promise<WalletNote[]> {
    const { chain, wallet, program_id, site } = this
    const total = amounts.reduce((a, b) => a + b)
    const account = ownAccount(chain, mint).bytes
    const before = await tokenBalance(chain, account)
    await mintTo(chain, mint, total)
    while ((await tokenBalance(chain, account)) < before + total) await Bun.sleep(5)
    const made = await Promise.all(
      amounts.map((amount) => deposit(chain, wallet, { program_id, mint, amount, key_index })),
    )
    const last = Math.max(...made.map(({ note }) => note.leaf_index!))
    for (;;) {
      const known = last < site.venue.treeRoot().leaf_count
      if (known && (await site.venue.treeInclusion(last)).usable) break
      await Bun.sleep(5)
    }
    return made.map(({ note }) => note)
  }

  /** The id, or the refusal's code; then the wallet has its note back. */
  async place(note: WalletNote, terms: Terms): Promise<{ order_id: string } | { code: string }> {
    const { wallet, instrument, expiry_slot } = this
    const request = preparePlace(wallet, this.venue_id, { ...terms, instrument, expiry_slot }, note)
    try {
      return { order_id: (await this.site.venue.place(this.account_id, request)).order_id }
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      dropRefused(wallet, request.order_id)
      return { code: error.code }
    }
  }

  /** Undefined, or the refusal's code. */
  async cancel(order_id: string): Promise<string | undefined> {
    const { key_index } = this.wallet.order(order_id)!
    const request = prepareCancel(this.wallet, this.venue_id, order_id, key_index)
    return refusalOf(this.site.venue.cancel(this.account_id, order_id, request))
  }

  async withdraw(note: WalletNote, destination: string, amount: bigint): Promise<string | undefined> {
    const to = { destination, amount, expiry_slot: this.expiry_slot }
    const request = prepareWithdrawal(this.wallet, this.venue_id, note, to)
    const code = await refusalOf(this.site.venue.withdraw(this.account_id, request))
    if (code !== undefined) dropRefusedPayment(this.wallet, request)
    return code
  }

  async reshape(notes: WalletNote[], amounts: bigint[]): Promise<string | undefined> {
    const { expiry_slot } = this
    const request = prepareReshape(this.wallet, this.venue_id, notes, { amounts, expiry_slot })
    const code = await refusalOf(this.site.venue.reshape(this.account_id, request))
    if (code !== undefined) dropRefusedPayment(this.wallet, request)
    return code
  }

  /** Absorbs every event the venue has by now. */
  async sync(): Promise<void> {
    for (let after: number | null = this.wallet.state.seq; after !== null; ) {
      const page = await this.site.venue.events(this.account_id, { after, limit: 500 })
      for (const event of page.items) {
        absorbEvent(this.wallet, this.site.venue.identity().generation, event)
        this.events.push(event)
      }
      after = page.next_after
    }
  }

  /** Lets the venue live for some slots. */
  async pass(slots: number): Promise<void> {
    const from = this.site.venue.time().slot
    while (this.site.venue.time().slot < from + slots) await Bun.sleep(2)
  }

  /** Absorbs events until `holds`. */
  async until(holds: () => boolean): Promise<void> {
    for (;;) {
      await this.sync()
      if (holds()) return
      await Bun.sleep(5)
    }
  }

  /** No order is open and everything that was to be settled is final. */
  get settled(): boolean {
    const newest = new Map<string, string>()
    for (const { kind, data } of this.events) {
      if (STAGED.test(kind)) newest.set(subjectOf(data as Fill & Withdrawal & Reshape), kind)
    }
    const filled = this.wallet.state.orders.every(
      (order) => !order.open && order.filled === (order.filled_final ?? '0'),
    )
    return filled && [...newest.values()].every((kind) => LAST.test(kind))
  }
}

function subjectOf(data: Fill & Withdrawal & Reshape): string {
  return data.withdrawal_id ?? data.reshape_id ?? `${data.order_id} ${data.fill_index}`
}

async function refusalOf(answer: Promise<unknown>): Promise<string | undefined> {
  try {
    await answer
    return undefined
  } catch (error) {
    if (error instanceof Refusal) return error.code
    throw error
  }
}

export const ONE = 1_000_000_000n
export const PRICE = 100_000_000n

type MemoryTerms = Partial<Omit<OrderTerms, 'instrument'>>

/** A wallet with the same seed and a copy of the state. */
export function copyOf(wallet: Wallet): Wallet {
  return new Wallet(wallet.seed, JSON.parse(JSON.stringify(wallet.state)) as WalletState)
}

/** A deposit on a ledger, known to the wallet as `client/chain/deposit.ts` leaves it. */
export function depositNote(
  ledger: TestVenue['ledger'],
  wallet: Wallet,
  { side, amount, key_index }: { side: 'base' | 'quote'; amount: bigint; key_index: number },
): WalletNote {
  const mint = side === 'base' ? BASE_MINT : QUOTE_MINT
  const blinding = deriveDepositBlinding(wallet.seed, key_index, wallet.counters(key_index).deposits++)
  const owner = wallet.tradingKey(key_index)
  const { commitment, leaf_index } = ledger.deposit({ owner, mint, amount, blinding })
  const note: WalletNote = {
    commitment: toHex(commitment),
    key_index,
    mint: encodeBase58(mint),
    amount: String(amount),
    blinding: toHex(blinding),
    leaf_index,
    state: 'free',
    origin: 'deposit',
  }
  wallet.addNote(note)
  return note
}

export class MemoryTrader {
  readonly wallet = new Wallet(crypto.getRandomValues(new Uint8Array(32)))
  readonly events: AccountEvent[] = []
  private constructor(
    readonly open: TestVenue,
    readonly account_id: string,
  ) {}

  static async provisioned(open: TestVenue, account_id: string): Promise<MemoryTrader> {
    const record = { account_id, version: 1, orders_live_max: 1000, keys_max: 100 }
    await open.venue.provision(record)
    return new MemoryTrader(open, account_id)
  }

  get venue_id(): Uint8Array {
    return fromHex(this.open.venue.identity().venue, 32)!
  }
  get expiry_slot(): number {
    return this.open.ledger.slot + 100
  }

  /** A deposit note on the ledger, known to the wallet as `client/chain/deposit.ts` leaves it. */
  deposit(side: 'base' | 'quote', amount: bigint, key_index = 0): WalletNote {
    return depositNote(this.open.ledger, this.wallet, { side, amount, key_index })
  }

  /** A buy, or a sell of a base note, of one whole token at the reference unless `change` says otherwise. */
  prepare(note: WalletNote, change: MemoryTerms = {}): PlaceRequest {
    const side = note.mint === encodeBase58(BASE_MINT) ? 'sell' : 'buy'
    const instrument = this.open.venue.instrument('SOL-USDC')
    const { expiry_slot } = this
    const terms = { instrument, side, amount: ONE, price_limit: PRICE, expiry_slot, ...change } as const
    return preparePlace(this.wallet, this.venue_id, terms, note)
  }

  async place(note: WalletNote, change: MemoryTerms = {}): Promise<string> {
    const request = this.prepare(note, change)
    return (await this.open.venue.place(this.account_id, request)).order_id
  }

  /** Events the wallet has not absorbed, as the venue returns them now. */
  async news(): Promise<AccountEvent[]> {
    const { items } = await this.open.venue.events(this.account_id, {
      after: this.wallet.state.seq,
      limit: 500,
    })
    return items
  }

  async sync(): Promise<void> {
    for (const event of await this.news()) {
      absorbEvent(this.wallet, 0, event)
      this.events.push(event)
    }
  }
}

/** A buyer and a seller with deposits the venue knows. */
export async function twoTraders(open: TestVenue) {
  const buyer = await MemoryTrader.provisioned(open, 'buyer')
  const seller = await MemoryTrader.provisioned(open, 'seller')
  const money = buyer.deposit('quote', 1_000_000_000n)
  const goods = seller.deposit('base', 10n * ONE)
  await open.chain.finalizeLeaves()
  return { buyer, seller, money, goods }
}

/** Each of `lies` replaces fields of the event's data. */
export function refusesLies<T extends object>(
  trader: MemoryTrader,
  event: AccountEvent,
  lies: Partial<T>[],
): void {
  for (const lie of lies) {
    const wallet = copyOf(trader.wallet)
    const told = { ...event, seq: wallet.state.seq + 1, data: { ...event.data, ...lie } } as AccountEvent
    const tell = () => absorbEvent(wallet, 0, told)
    expect(tell, JSON.stringify(lie)).toThrow(WalletMismatch)
    expect(wallet.state, JSON.stringify(lie)).toEqual(trader.wallet.state)
  }
}
