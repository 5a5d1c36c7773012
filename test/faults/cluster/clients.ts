/** Traders of the campaign: commands repeated until their outcome is known, and the events that their streams pushed. */
import type { AccountEvent, Order } from '../../../protocol/wire/trading'
import { JTO, USDC } from '../../../sandbox/environment'
import type { Random } from '../../kit/random'
import type { EmbeddedSite } from '../../kit/venue/embedded_site'
import type { JsonVenue } from '../../kit/venue/json_venue'
import { type Deposit, Trader } from '../../kit/venue/trader'
import { type Node, NodeGone, Refused } from './node'
import type { World } from './world'

const ANSWER_MS = 1_500
const OUTCOME_MS = 90_000
const STREAM_MS = 10_000
const PAGE = 500
/** A right to answer, and the difference between clocks of several processes. */
const RIGHT_MS = 1_250
/** Of a node that does not serve now; the command was not applied. */
const PASSING: readonly string[] = [
  'reopening',
  'matching_unavailable',
  'lease_lost',
  'unanchored',
  'settlement_unavailable',
  'settlement_backlog',
  'draining',
  'disk_full',
  'commit_undecided',
  'commit_reorged',
]
const PRICES = { buy: '90000000', sell: '110000000' }
const CROSSING = '100000000'

type Side = keyof typeof PRICES
type Placed = { order_id: string; note: Deposit }
type Command = {
  order_id: string
  /** Nodes that follow take it, too. */
  anywhere: true
  /** Whether an answer said that it was done. */
  acknowledged: boolean
  send: (node: Node) => Promise<unknown>
}
type Seen = { seq: number; kind: string; order_id: string | undefined; text: string }

export class Client {
  private readonly trader: Trader
  private notes: Deposit[] = []
  private live: Placed[] = []
  private readonly placed: Command[] = []
  private readonly cancelled: Command[] = []
  /** By seq - 1, of the leaders' lists. */
  private listed: Seen[] = []
  /** The same of the streams. */
  private readonly pushed: { seq: number; text: string }[] = []
  private newest: Promise<void> = Promise.resolve()
  /** Events that answers have shown, and when. */
  private readonly known: { seq: number; at_ms: number }[] = []
  /** Reads that fronts answered. */
  fronted = 0
  /** Events that a stream should not have pushed. */
  private fault: string | undefined

  constructor(
    readonly account: string,
    private readonly side: Side,
    private readonly site: EmbeddedSite,
    private readonly random: Random,
    private readonly nodes: Pick<World, 'leading' | 'serving' | 'followers'>,
    venue: string,
  ) {
    const ledger = {
      get slot() {
        return site.chain.slot()
      },
      deposit: (): never => {
        throw new Error('deposits are made on the chain')
      },
    }
    this.trader = new Trader({ venue: { identity: () => ({ venue }) } as JsonVenue, ledger }, account)
  }

  get acknowledged(): number {
    return [...this.placed, ...this.cancelled].filter(({ acknowledged }) => acknowledged).length
  }

  /** So many notes are ready to back orders. */
  async funded(count: number): Promise<bigint> {
    let deposited = 0n
    const [mint, amount] = this.side === 'buy' ? [USDC, 200_000_000n] : [JTO, 3_000_000_000n]
    let leaf = -1
    while (this.notes.length < count) {
      const note = await this.site.deposit(this.trader, mint, amount)
      this.notes.push(note)
      leaf = note.opening.leaf_index
      deposited += amount
    }
    if (deposited === 0n) return 0n
    this.site.chain.advance(this.site.chain.machine.depth.finalized + 1)
    const is_usable = { send: (node: Node) => node.call('usable', leaf) }
    while ((await this.outcome(is_usable)) !== true) await Bun.sleep(10)
    return deposited
  }

  get mint(): string {
    return this.side === 'buy' ? USDC : JTO
  }

  /** Places an order, or cancels one, behind the command before; resolves once the outcome is known. */
  act(): Promise<void> {
    return this.next(() => {
      const cancels = this.live.length > 3 || (this.live.length > 0 && this.random.below(3) === 0)
      return cancels ? this.cancel() : this.place(PRICES[this.side])
    })
  }

  /** Places an order that matches one of the other side. */
  cross(): Promise<void> {
    return this.next(() => this.place(CROSSING))
  }

  /** One command after the other: nonces ascend. */
  private next(act: () => Promise<void>): Promise<void> {
    this.newest = this.newest.then(act)
    // Its caller has the error.
    this.newest.catch(() => undefined)
    return this.newest
  }

  private async place(price_limit: string): Promise<void> {
    const note = this.notes.pop()!
    const expiry_slot = this.site.chain.slot() + 9_000
    const request = this.trader.place(note, { side: this.side, price_limit, expiry_slot })
    const { order_id } = request
    const { account } = this
    const command: Command = {
      order_id,
      anywhere: true,
      acknowledged: false,
      send: (node) => node.call('place', account, request),
    }
    this.placed.push(command)
    await this.outcome(command)
    command.acknowledged = true
    if (price_limit !== CROSSING) this.live.push({ order_id, note })
  }

  private async cancel(): Promise<void> {
    const [{ order_id, note }] = this.live.splice(this.random.below(this.live.length), 1) as [Placed]
    const request = this.trader.cancel(order_id)
    const { account } = this
    const command: Command = {
      order_id,
      anywhere: true,
      acknowledged: false,
      send: (node) => node.call('cancel', account, order_id, request),
    }
    this.cancelled.push(command)
    await this.outcome(command, ['order_final', 'nonce_stale'])
    command.acknowledged = true
    this.notes.push(note)
  }

  /**
   * Repeats the same bytes until the answer is one.
   * @param done codes that a repetition meets when the first one was applied
   */
  private async outcome(
    command: { send: (node: Node) => Promise<unknown>; acknowledged?: boolean; anywhere?: true },
    done: readonly string[] = [],
  ): Promise<unknown> {
    const end_ms = performance.now() + OUTCOME_MS
    for (let repeated = false; performance.now() < end_ms; await Bun.sleep(5)) {
      const node = command.anywhere ? this.nodes.serving() : this.nodes.leading
      if (node === undefined) continue
      const answer = command.send(node)
      // A late answer counts.
      answer.then(
        (result) => {
          command.acknowledged = true
          this.knows((result as { seq?: number }).seq)
        },
        () => undefined,
      )
      try {
        return await Promise.race([answer, tooLate()])
      } catch (error) {
        if (error instanceof Refused) {
          if (error.applied === 'yes') return undefined
          if (error.applied === 'no' && !PASSING.includes(error.code)) {
            if (repeated && done.includes(error.code)) return undefined
            throw new Error(`${this.account} was refused: ${error.code}`)
          }
          if (error.applied === 'no') continue
        } else if (!(error instanceof NodeGone)) throw error
        repeated = true
      }
    }
    const reasons = await Promise.race([this.nodes.leading?.call('status'), Bun.sleep(1_000)]).catch(
      () => undefined,
    )
    throw new Error(`no outcome within ${OUTCOME_MS} ms: ${reasons ?? 'no node leads'}`)
  }

  /** An answer has shown this event of the account. */
  private knows(seq: number | undefined): void {
    if (seq !== undefined) this.known.push({ seq, at_ms: performance.now() })
  }

  /**
   * Reads, at each node that follows, commands acknowledged longer ago than a right lasts: they are there, or nothing is
   * answered.
   * @throws Error for a front that answers without them
   */
  async readFronts(): Promise<void> {
    const before_ms = performance.now() - RIGHT_MS
    const seq = Math.max(0, ...this.known.filter(({ at_ms }) => at_ms < before_ms).map((one) => one.seq))
    if (seq === 0) return
    const reads = this.nodes.followers().map(async (node) => {
      const text = await Promise.race([node.call('read', this.account, seq), tooLate()]).catch((error) => {
        if (error instanceof NodeGone) return undefined
        if (error instanceof Refused && PASSING.includes(error.code)) return undefined
        throw new Error(`a stale front answers ${this.account}: ${String(error)} for seq ${seq}`)
      })
      if (text === undefined) return
      this.fronted += 1
      const known = this.pushed[seq - 1]?.text
      if (known !== undefined && known !== text)
        throw new Error(`a front has another seq ${seq} of ${this.account}`)
    })
    await Promise.all(reads)
  }

  /** The leader's stream behind the pushed events. */
  async follow(node: Node): Promise<void> {
    await node.call('follow', this.account, this.pushed.length)
  }

  push(events: { seq: number; text: string }[]): void {
    for (const event of events) {
      const known = this.pushed[event.seq - 1]
      // A deposed leader may still push events that the next one has pushed, too.
      if (known === undefined && event.seq === this.pushed.length + 1) this.pushed.push(event)
      else if (known?.text !== event.text) this.fault ??= `the stream of ${this.account} at seq ${event.seq}`
    }
  }

  /** @throws Error with the rule that does not hold */
  async check(node: Node): Promise<void> {
    const { account, fault } = this
    if (fault !== undefined) throw new Error(`gap or change: ${fault}`)
    // The last few again: listed events do not change.
    let after = Math.max(0, this.listed.length - 20)
    for (;;) {
      const { items } = await node.call('events', account, { after, limit: PAGE })
      for (const event of items) this.list(event, ++after)
      if (items.length < PAGE) break
    }
    const text = (list: readonly { text: string }[]) => list.map((one) => one.text)
    for (let wait_ms = 0; this.pushed.length < this.listed.length && wait_ms < STREAM_MS; wait_ms += 5)
      await Bun.sleep(5)
    const pushed = text(this.pushed.slice(0, this.listed.length))
    if (!Bun.deepEquals(pushed, text(this.listed))) throw new Error(`stream and list of ${account} differ`)
    this.checkOnce('order.accepted', this.placed)
    this.checkOnce('order.cancelled', this.cancelled)
  }

  private list(event: AccountEvent, expected: number): void {
    const { seq, kind } = event
    if (seq !== expected) throw new Error(`a gap in the list of ${this.account} before seq ${seq}`)
    const { order_id } = event.data as Partial<Order>
    const seen = { seq, kind, order_id, text: JSON.stringify(event) }
    const known = this.listed[seq - 1]
    if (known === undefined) this.listed.push(seen)
    else if (known.text !== seen.text) throw new Error(`seq ${seq} of ${this.account} has changed`)
  }

  /** Every command that was acknowledged has this event once; the others, once at most. */
  private checkOnce(kind: string, commands: readonly Command[]): void {
    const counts = new Map<string, number>()
    for (const one of this.listed)
      if (one.kind === kind) counts.set(one.order_id!, (counts.get(one.order_id!) ?? 0) + 1)
    for (const { order_id, acknowledged } of commands) {
      const count = counts.get(order_id) ?? 0
      if (count > 1) throw new Error(`${kind} ${count} times for one command of ${this.account}`)
      if (count === 0 && acknowledged) throw new Error(`a command that was acknowledged is lost: ${kind}`)
    }
  }
}

async function tooLate(): Promise<never> {
  await Bun.sleep(ANSWER_MS)
  throw new NodeGone('no answer')
}
