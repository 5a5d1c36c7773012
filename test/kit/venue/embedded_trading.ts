/** Two traders on an embedded site: deposits that count, orders that cross, and what there is to wait for. */

import { decodeBase58, encodeBase58 } from '../../../protocol/base58'
import { readU64Le } from '../../../protocol/bytes'
import type * as wire from '../../../protocol/wire/trading'
import type { Faults } from '../../../sandbox/chain/embedded_chain'
import { JTO, USDC } from '../../../sandbox/environment'
import { EmbeddedSite } from './embedded_site'
import type { JsonVenue } from './json_venue'
import { type Deposit, Trader } from './trader'

/** Of a token account. */
const TOKEN_AMOUNT_AT = 64

export const soon = () => new Promise((resolve) => setImmediate(resolve))

export class EmbeddedTrading {
  readonly site = new EmbeddedSite()
  alice!: Trader
  bob!: Trader

  async open(faults: Faults = {}, finalized_depth?: number): Promise<void> {
    await this.site.openChain(faults, finalized_depth)
    await this.site.openVenue()
    for (const account_id of ['alice', 'bob']) await this.site.issue(account_id)
    this.alice = this.trader('alice')
    this.bob = this.trader('bob')
  }

  /** A new key of an account; commands are signed for the venue that runs now. */
  trader(account_id: string): Trader {
    const { site } = this
    const ledger = {
      get slot() {
        return site.venue.time().slot
      },
      deposit: (): never => {
        throw new Error('deposits are made on the chain')
      },
    }
    return new Trader({ venue: site.venue, ledger }, account_id)
  }

  /** Resolves once the deposit counts. */
  async deposited(trader: Trader, mint: string, amount: bigint): Promise<Deposit> {
    const { site } = this
    const deposit = await site.deposit(trader, mint, amount)
    const { leaf_index } = deposit.opening
    site.chain.advance(site.chain.machine.depth.finalized + 1)
    for (;;) {
      const known = leaf_index < site.venue.treeRoot().leaf_count
      if (known && (await site.venue.treeInclusion(leaf_index)).usable) return deposit
      await soon()
    }
  }

  /** Orders that cross, with deposits of their own; resolves with the buyer's once both are accepted. */
  async cross(venue: JsonVenue = this.site.venue): Promise<wire.PlaceResult> {
    const money = await this.deposited(this.alice, USDC, 200_000_000n)
    const goods = await this.deposited(this.bob, JTO, 3_000_000_000n)
    const expiry_slot = venue.time().slot + 5_000
    const bought = await venue.place('alice', this.alice.place(money, { expiry_slot }))
    await venue.place('bob', this.bob.place(goods, { side: 'sell', expiry_slot }))
    return bought
  }

  async events(account_id: string, after = 0): Promise<wire.AccountEvent[]> {
    return (await this.site.venue.events(account_id, { after, limit: 500 })).items
  }

  async until(account_id: string, wanted: (event: wire.AccountEvent) => boolean, after = 0): Promise<void> {
    while (!(await this.events(account_id, after)).some(wanted)) await soon()
  }

  /** Resolves once the account on chain is there, or gone, for good. */
  async untilAccount(account: Uint8Array, there: boolean): Promise<void> {
    const at = () => this.site.chain.machine.accountAt(encodeBase58(account), 'finalized')
    while ((at() !== undefined) !== there) await soon()
  }

  async untilBalance(account: Uint8Array, amount: bigint): Promise<void> {
    while (this.balance(account) !== amount) await soon()
  }

  /** Finalized balance of a token account. */
  balance(account: Uint8Array): bigint {
    const { data } = this.site.chain.machine.accountAt(encodeBase58(account), 'finalized')!
    return readU64Le(data, TOKEN_AMOUNT_AT)
  }

  /** A token account of a fresh wallet that holds one unit. */
  async payee(mint: string): Promise<Uint8Array> {
    return decodeBase58(await this.site.payee(mint), 32)!
  }
}
