/** One trader of the demo: a wallet, an account, a chain access, and the event stream that keeps the wallet true. */
import { fromHex } from '../../protocol/bytes'
import type { AccountEvent, Fill, Instrument, Order, OrderType, Side } from '../../protocol/wire'
import { type EventStream, followEvents } from '../api/event_stream'
import type { VenueClient } from '../api/venue_client'
import { VenueProblem } from '../api/venue_problem'
import type { ChainAccess } from '../chain/chain_access'
import { absorbEvent } from '../wallet/absorb_event'
import { dropRefused } from '../wallet/drop_refused'
import { prepareCancel } from '../wallet/prepare_cancel'
import { collateralOf, preparePlace } from '../wallet/prepare_place'
import type { Wallet } from '../wallet/wallet'
import { saveWallet } from '../wallet/wallet_file'
import { DemoFailed } from './report'

/** Slots an order of the demo may rest. */
const LIFE_SLOTS = 3_000
const WAIT_MS_MAX = 600_000

export type Terms = { side: Side; type?: OrderType; amount: bigint; price: bigint; min_fill?: bigint }

export class Trader {
  readonly events: AccountEvent[] = []
  private readonly waiters = new Set<() => void>()
  private stream: EventStream | undefined
  private mismatch: Error | undefined
  venue = new Uint8Array(32)
  generation = 0
  client!: VenueClient

  constructor(
    readonly name: string,
    readonly wallet: Wallet,
    private readonly wallet_path: string,
    /** Replaced when the embedded chain serves on another port after a restart. */
    public chain: ChainAccess,
  ) {}

  /** Follows the account from the last event the wallet knows. */
  async connect(client: VenueClient): Promise<void> {
    this.client = client
    const info = await client.info()
    this.venue = new Uint8Array(fromHex(info.venue, 32)!)
    this.generation = info.generation
    this.stream?.close()
    this.stream = followEvents(client, this.wallet.state.seq, {
      event: (event) => this.absorb(event),
      gap: () => this.fail(new DemoFailed(`${this.name}: the venue no longer holds the events asked for`)),
    })
  }
  close(): void {
    this.stream?.close()
    saveWallet(this.wallet_path, this.wallet)
  }
  save(): void {
    saveWallet(this.wallet_path, this.wallet)
  }

  private absorb(event: AccountEvent): void {
    if (event.seq !== this.wallet.state.seq + 1)
      this.fail(new DemoFailed(`${this.name}: events are not gapless`))
    try {
      absorbEvent(this.wallet, this.generation, event)
    } catch (error) {
      this.fail(error as Error)
    }
    this.events.push(event)
    this.save()
    for (const wake of this.waiters) wake()
  }
  private fail(error: Error): void {
    this.mismatch ??= error
    for (const wake of this.waiters) wake()
  }

  /** Resolves with the first value `find` gives, looking again after each event. @throws DemoFailed in the end. */
  until<T>(what: string, find: () => T | undefined): Promise<T> {
    return new Promise((resolve, reject) => {
      const late = setTimeout(
        () => done(new DemoFailed(`${this.name}: waited in vain for ${what}`)),
        WAIT_MS_MAX,
      )
      const done = (error: Error | undefined, value?: T): void => {
        clearTimeout(late)
        this.waiters.delete(look)
        if (error !== undefined) reject(error)
        else resolve(value as T)
      }
      const look = (): void => {
        if (this.mismatch !== undefined) {
          done(this.mismatch)
          return
        }
        const value = find()
        if (value !== undefined) done(undefined, value)
      }
      this.waiters.add(look)
      look()
    })
  }

  /** Places an order backed by the smallest note that covers it. */
  async place(instrument: Instrument, terms: Terms): Promise<string> {
    const { slot } = await this.client.time()
    const order = {
      instrument,
      side: terms.side,
      type: terms.type ?? 'limit',
      amount: terms.amount,
      price_limit: terms.price,
      min_fill: terms.min_fill ?? 0n,
      expiry_slot: slot + LIFE_SLOTS,
    }
    const needed = collateralOf(order)
    const note = this.wallet.noteFor(needed.mint, needed.amount)
    if (note === undefined) throw new DemoFailed(`${this.name} has no note that covers the order`)
    const request = preparePlace(this.wallet, this.venue, order, note)
    this.save()
    try {
      return (await this.client.place(request)).order_id
    } catch (error) {
      if (error instanceof VenueProblem && error.applied === 'no') dropRefused(this.wallet, request.order_id)
      throw error
    }
  }
  async cancel(order_id: string): Promise<void> {
    const key_index = this.wallet.order(order_id)!.key_index
    await this.client.cancel(order_id, prepareCancel(this.wallet, this.venue, order_id, key_index))
  }

  /** The newest state of an order the events told. */
  order(order_id: string): Order | undefined {
    const told = this.events.filter(
      ({ kind, data }) => kind.startsWith('order.') && (data as Order).order_id === order_id,
    )
    return told.at(-1)?.data as Order | undefined
  }
  fillsOf(order_id: string, stage: 'matched' | 'finalized'): Fill[] {
    return this.events
      .filter(({ kind, data }) => kind === `fill.${stage}` && (data as Fill).order_id === order_id)
      .map((event) => event.data as Fill)
  }
  untilOrder(order_id: string, status: Order['status']): Promise<Order> {
    return this.until(`order ${order_id} ${status}`, () => {
      const order = this.order(order_id)
      return order?.status === status ? order : undefined
    })
  }
  untilFills(order_id: string, stage: 'matched' | 'finalized', count: number): Promise<Fill[]> {
    return this.until(`${count} fills ${stage}`, () => {
      const fills = this.fillsOf(order_id, stage)
      return fills.length >= count ? fills : undefined
    })
  }
}
