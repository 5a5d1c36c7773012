/** A trader of the tests as the product has it: the client's wallet and chain access, on a venue without listeners. */

import { type ChainAccess, openChainAccess } from '../../client/chain/chain_access'
import { airdrop, deposit, mintTo } from '../../client/chain/deposit'
import { ownAccount, tokenBalance } from '../../client/chain/token_account'
import { absorbEvent } from '../../client/wallet/absorb'
import {
  dropRefused,
  dropRefusedPayment,
  type OrderTerms,
  prepareCancel,
  preparePlace,
  prepareReshape,
  prepareWithdrawal,
} from '../../client/wallet/prepare'
import { Wallet, type WalletNote } from '../../client/wallet/wallet'
import { encodeBase58 } from '../../protocol/base58'
import { fromHex } from '../../protocol/bytes'
import { Refusal } from '../../protocol/refusals'
import type { AccountEvent, Fill, Instrument, Reshape, Withdrawal } from '../../protocol/wire/trading'
import type { EmbeddedSite } from '../kit/venue/embedded_site'

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
