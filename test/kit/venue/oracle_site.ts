/** A venue whose first instrument takes its reference from an oracle, with two crossing traders and a clock moved by hand. */
import type { EngineConfig } from '../../../engine/config'
import { encodeBase58 } from '../../../protocol/base58'
import { type SignedReferencePrice, signReferencePrice } from '../../../protocol/bodies/signed_calls'
import { fromHex } from '../../../protocol/bytes'
import { publicKeyOf } from '../../../protocol/sign'
import type * as wire from '../../../protocol/wire/trading'
import { bytes } from './memory_chain'
import { TestSite, type TestVenue, testConfig } from './open_test_venue'
import { Trader } from './trader'

export const ORACLE_SYMBOL = 'SOL-USDC'
export const SOURCE = 'feed-1'
export const MAX_AGE_MS = 5_000

type Placed = { account_id: string; order_id: string }
type Terms = Partial<EngineConfig['instruments'][number]>

export class OracleSite extends TestSite {
  readonly source_seed = bytes(32)
  now_ms = 1_800_000_000_000
  venue!: TestVenue
  override unixMs = (): number => this.now_ms

  oracleConfig(terms: Terms = {}): Pick<EngineConfig, 'instruments' | 'reference_sources'> {
    const [first, ...others] = testConfig('').instruments
    const oracle = { ...first!, reference_policy: 'oracle' as const, ...terms }
    const key = encodeBase58(publicKeyOf(this.source_seed))
    const sources = [{ source: SOURCE, key }]
    return {
      instruments: [oracle, ...others],
      reference_sources: [{ symbol: ORACLE_SYMBOL, max_age_ms: MAX_AGE_MS, sources }],
    }
  }

  async openOracle(terms: Terms = {}): Promise<TestVenue> {
    this.venue = await this.open(this.oracleConfig(terms))
    return this.venue
  }

  get venue_id(): Uint8Array {
    return fromHex(this.venue.venue.identity().venue, 32)!
  }

  /** A price signed by the source; `change` replaces what is signed. */
  price(
    price: bigint,
    change: { venue?: Uint8Array; symbol?: string; source?: string; publish_unix_ms?: number } = {},
    seed = this.source_seed,
  ): SignedReferencePrice {
    const fields = { venue: this.venue_id, symbol: ORACLE_SYMBOL, source: SOURCE }
    return signReferencePrice({ ...fields, publish_unix_ms: this.now_ms, price, ...change }, seed)
  }

  /** Places one buy and one sell, of two accounts. */
  async placeBoth(
    buy: Partial<wire.CheckRequest>,
    sell: Partial<wire.CheckRequest>,
  ): Promise<{ buy: Placed; sell: Placed }> {
    const bought = await this.placeOne('quote', buy)
    const sold = await this.placeOne('base', { side: 'sell', ...sell })
    return { buy: bought, sell: sold }
  }

  async placeOne(side: 'base' | 'quote', terms: Partial<wire.CheckRequest>): Promise<Placed> {
    const account_id = `account-${this.ledger.notes.leaf_count}`
    const trader = await Trader.provisioned(this.venue, account_id)
    const from = this.ledger.notes.leaf_count
    const order = trader.place(trader.deposit(side, 5_000_000_000n), terms)
    await this.venue.chain.finalizeLeaves(from)
    await this.venue.venue.place(account_id, order)
    return { account_id, order_id: order.order_id }
  }
}
