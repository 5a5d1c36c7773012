/** Runs the client's wallet on a venue whose chain the test advances, with every event it received. */

import { expect } from 'bun:test'
import { absorbEvent, WalletMismatch } from '../../client/wallet/absorb'
import { type OrderTerms, preparePlace } from '../../client/wallet/prepare'
import { Wallet, type WalletNote, type WalletState } from '../../client/wallet/wallet'
import { encodeBase58 } from '../../protocol/base58'
import { fromHex, toHex } from '../../protocol/bytes'
import { deriveDepositBlinding } from '../../protocol/notes/derive'
import type { AccountEvent, PlaceRequest } from '../../protocol/wire/trading'
import { BASE_MINT, QUOTE_MINT, type TestVenue } from '../kit/venue/open_test_venue'

export const ONE = 1_000_000_000n
export const PRICE = 100_000_000n

type Terms = Partial<Omit<OrderTerms, 'instrument'>>

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
  prepare(note: WalletNote, change: Terms = {}): PlaceRequest {
    const side = note.mint === encodeBase58(BASE_MINT) ? 'sell' : 'buy'
    const instrument = this.open.venue.instrument('SOL-USDC')
    const { expiry_slot } = this
    const terms = { instrument, side, amount: ONE, price_limit: PRICE, expiry_slot, ...change } as const
    return preparePlace(this.wallet, this.venue_id, terms, note)
  }

  async place(note: WalletNote, change: Terms = {}): Promise<string> {
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
