/** A venue on a chain in memory that is moved by hand: commits wait, land and are voided, batches settle, payouts are paid. */
import type { Wallet } from '../../../client/wallet/wallet'
import { LIMITS } from '../../../engine/limits'
import { encodeBase58 } from '../../../protocol/base58'
import { Refusal } from '../../../protocol/refusals'
import { depositNote } from '../../client/wallet_trader'
import type { Random } from '../../kit/random'
import { type Ledger, MemoryChain } from '../../kit/venue/memory_chain'
import { BASE_MINT, QUOTE_MINT, TestSite, type TestVenue, testConfig } from '../../kit/venue/open_test_venue'
import { accountId } from '../../kit/venue/test_login'
import { type Life, run } from '../awaits'
import { LOT, TICK } from '../calls'
import { booksBroken, depositsOf, LedgerFacts, Maker } from '../campaign_check'
import type { SimulatedTime } from '../simulated_time'
import { type ChainFacts, type DepositTerms, termsOf, type World } from './world'

/** Of a dead process nothing reaches the chain. */
const owners = new WeakMap<MemoryChain, Life | undefined>()
for (const name of ['readConfig', 'readMints', 'openEpoch', 'anchor', 'commit'] as const) {
  const real = MemoryChain.prototype[name] as (...args: unknown[]) => Promise<unknown>
  Object.defineProperty(MemoryChain.prototype, name, {
    value(this: MemoryChain, ...args: unknown[]) {
      if (!owners.has(this)) owners.set(this, run.venue)
      return owners.get(this)?.alive === false ? new Promise(() => undefined) : real.apply(this, args)
    },
  })
}

type Moment = ReturnType<MemoryWorld['moment']>

export class MemoryWorld implements World {
  readonly site = new TestSite()
  readonly ledger: Ledger
  readonly mints = { base: encodeBase58(BASE_MINT), quote: encodeBase58(QUOTE_MINT) }
  readonly keeps_tokens = false
  readonly nodes = 1
  private open_now: TestVenue | undefined
  private settling = false
  /** A closed batch whose commit is withheld, and the slots until it is decided. */
  private withheld_slots = 0
  /** Leaves that the venue was not shown, from this one on. */
  private hidden_from = 0
  private readonly read: LedgerFacts
  private makers: { buyer: Maker; seller: Maker } | undefined

  constructor(time: SimulatedTime) {
    this.site.segment_bytes = LIMITS.journal_segment_bytes
    this.site.monotonicMs = () => Math.floor(time.passed_ms)
    this.site.unixMs = () => 1_700_000_000_000 + Math.floor(time.passed_ms)
    this.ledger = this.site.ledger
    this.read = new LedgerFacts(this.ledger)
  }

  dirOf(): string {
    return this.site.dir
  }
  moveTo(_: number, dir: string): void {
    this.site.dir = dir
  }
  get statement_key(): Uint8Array {
    return this.site.keys.statement_key
  }
  private get now(): TestVenue {
    return this.open_now!
  }
  isExpected(): boolean {
    return false
  }
  open(): Promise<TestVenue> {
    return this.site.open(termsOf(testConfig('')))
  }
  served(open: TestVenue): string | undefined {
    this.open_now = open
    // The decision of a batch comes from the queue; nothing waits for it.
    open.chain.decided = async () => undefined
    if (!open.chain.is_started) return 'the venue starts and stays stopped'
    this.settling = true
    void this.catchUp().then(() => {
      this.settling = false
    })
    return undefined
  }
  /** Facts on the chain that the journal does not have: leaves, batches and payouts. */
  private async catchUp(): Promise<void> {
    const { chain, ledger, engine } = this.now
    const { settlement, leaves } = engine.state
    const { signature } = { signature: new Uint8Array(64).fill(3) }
    const stage = (batch_id: number, stage: 'submitted' | 'confirmed' | 'finalized') =>
      chain.outbox.recordStage({ batch_id, stage, signature, slot: ledger.slot })
    const landed = [...settlement.batches.keys()].filter((id) => id <= ledger.config.last_batch)
    for (const batch_id of landed) {
      await chain.outbox.waitForPayload(batch_id)
      await stage(batch_id, 'submitted')
      await stage(batch_id, 'confirmed')
    }
    if (leaves.size < ledger.notes.leaf_count) await chain.finalizeLeaves(leaves.size)
    for (const batch_id of landed) await stage(batch_id, 'finalized')
    const open = new Set(ledger.config.queue.entries.map(({ number }) => number))
    for (const { number } of chain.outbox.openPayouts()) {
      if (open.has(number) || number >= ledger.config.queue.next_number) continue
      for (const stage of ['confirmed', 'finalized'] as const)
        await chain.outbox.recordPayout({ number, stage, outcome: 'paid', signature, slot: ledger.slot })
    }
    await chain.payAll()
  }

  /** Now and then the commit of a closed batch waits, and then lands or cannot land any more. */
  slot(random: Random, calm: boolean, up: boolean): void {
    const { ledger } = this
    const [withholds, settles] = [random.below(6) === 0, random.below(2) === 0]
    if (!up) {
      ledger.slot++
      return
    }
    const { chain, engine } = this.now
    if (this.withheld_slots > 0) {
      this.withheld_slots = calm ? 0 : this.withheld_slots - 1
      if (this.withheld_slots === 0) this.decide(random.below(4) > 0)
    } else if (ledger.withheld && engine.state.closed !== undefined) {
      this.withheld_slots = 1 + random.below(4)
    } else if (!calm && withholds) ledger.withheld = true
    else if (ledger.withheld && calm) ledger.withheld = false
    void chain.tick()
    if (ledger.withheld || this.isSettled || !settles || this.settling) return
    this.settling = true
    void chain.settleNext().then(() => {
      this.settling = false
    })
  }
  private decide(lands: boolean): void {
    this.withheld_slots = 0
    if (!this.ledger.withheld) return
    this.ledger.withheld = false
    const { chain, engine } = this.now
    if (chain.sent === undefined || engine.state.closed === undefined) return
    if (lands) chain.landCommit()
    else chain.voidCommit()
  }
  /** Everything that was matched or paid is on the chain. */
  private get isSettled(): boolean {
    return this.now.engine.state.settlement.last_batch === this.ledger.config.last_batch
  }
  get rests(): boolean {
    return !this.settling && this.isSettled && this.now.engine.state.closed === undefined
  }
  stops(): void {
    this.decide(true)
  }
  stop({ close }: TestVenue): Promise<void> {
    return close()
  }
  gone(): void {}
  ended(random: Random): void {
    this.settling = false
    this.withheld_slots = 0
    const { ledger } = this
    const { sent } = this.open_now?.chain ?? {}
    // A commit that was on its way may land.
    if (ledger.withheld && sent !== undefined && random.below(2) === 0) this.now.chain.landCommit()
    ledger.withheld = false
  }

  async deposit(wallet: Wallet, terms: DepositTerms): Promise<void> {
    depositNote(this.ledger, wallet, terms)
  }
  async depositsShown(): Promise<void> {
    await this.now.chain.finalizeLeaves(this.hidden_from)
    this.hidden_from = this.ledger.notes.leaf_count
  }
  async admit(account_id: string): Promise<void> {
    this.hidden_from = this.ledger.notes.leaf_count
    await this.now.venue.provision({ account_id, version: 1, orders_live_max: 1_000, keys_max: 100 })
  }
  loginOf(account: string) {
    return {
      api_key: account,
      api_secret: 'secret',
      passphrase: 'passphrase',
      account_id: accountId(account),
    }
  }
  marketLogin(): undefined {}
  async prepareMarket(): Promise<void> {
    this.makers = { buyer: new Maker('buyer', 'buy'), seller: new Maker('seller', 'sell') }
    for (const maker of Object.values(this.makers)) await maker.provision(this.now)
  }
  /** An order on either side, mostly at a price that crosses. */
  market(random: Random, broken: (law: string) => void): void {
    if (random.below(3) > 0) return
    const { buyer, seller } = this.makers!
    const amount = BigInt(100 + random.below(300)) * LOT
    const better = BigInt(random.below(200)) * TICK
    const placed =
      random.below(2) === 0
        ? buyer.place(this.now, amount, 100_000_000n + better)
        : seller.place(this.now, amount, 100_000_000n - better)
    placed.catch((error: unknown) => {
      if (!(error instanceof Refusal)) broken(`a maker's order fails: ${error}`)
    })
  }
  payee(): undefined {}
  facts(): ChainFacts {
    this.read.read()
    return this.read
  }
  booksBroken(): string[] {
    const { ledger } = this
    return booksBroken(this.now.engine.state, ledger, depositsOf(ledger))
  }

  /** Its trees only grow, so their sizes are enough. */
  is_aged = false
  ages(): void {
    this.is_aged = true
  }

  moment() {
    const { slot, config, settled, anchors, liabilities, notes, spent } = this.ledger
    return {
      slot,
      config,
      settled: [...settled],
      anchors: [...anchors],
      liabilities: [...liabilities],
      leaves: notes.leaf_count,
      batches: spent.leaf_count,
      hidden_from: this.hidden_from,
    }
  }
  putBack(to: Moment): void {
    const { ledger } = this
    ledger.slot = to.slot
    ledger.config = to.config
    ledger.withheld = false
    ledger.settled.splice(0, ledger.settled.length, ...to.settled)
    ledger.anchors.splice(0, ledger.anchors.length, ...to.anchors)
    ledger.liabilities.clear()
    for (const [mint, amount] of to.liabilities) ledger.liabilities.set(mint, amount)
    ledger.notes.truncate(to.leaves)
    ledger.spent.truncate(to.batches)
    this.hidden_from = to.hidden_from
    this.open_now = undefined
    this.settling = false
    this.withheld_slots = 0
    this.read.forget()
  }
  private readonly configs: unknown[] = []
  mark(): string {
    const { config, notes, settled, slot } = this.ledger
    if (this.configs.at(-1) !== config) this.configs.push(config)
    return `${this.configs.lastIndexOf(config)} ${notes.leaf_count} ${settled.length} ${slot}`
  }
}
