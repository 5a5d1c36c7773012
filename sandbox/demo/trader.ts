/** Drives one trader of the demo: account, wallet, chain access, and the event stream that keeps the wallet current. */

import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  type AccountEvent,
  absorbEvent,
  type ChainAccess,
  collateralOf,
  deriveAccountKey,
  dropRefused,
  type EventStream,
  type Fill,
  followEvents,
  type Instrument,
  type Login,
  loadWallet,
  newCredential,
  type Order,
  type OrderType,
  openChainAccess,
  prepareCancel,
  preparePlace,
  type Side,
  saveWallet,
  type VenueClient,
  VenueProblem,
  Wallet,
} from '../../client/index'
import { DEMO_EVENT_MAX_MS, DEMO_LIFE_SLOTS } from '../../client/limits'
import { fromHex } from '../../protocol/bytes'
import type { SandboxFacts } from '../open_sandbox'
import { DemoFailed, fact, short, waiting } from './report'

type Terms = { side: Side; type?: OrderType; amount: bigint; price: bigint; min_fill?: bigint }

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
    /** Replaced after a restart, because the embedded chain may then serve on another port. */
    public chain: ChainAccess,
  ) {}

  /** Follows the account's events after the last one in the wallet. */
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

  /** Resolves with the first value of `find`, called again after each event. @throws DemoFailed after a timeout */
  until<T>(goal: string, find: () => T | undefined): Promise<T> {
    const found = new Promise<T>((resolve, reject) => {
      const late = setTimeout(
        () => done(new DemoFailed(`${this.name}: waited in vain for ${goal}`)),
        DEMO_EVENT_MAX_MS,
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
    return waiting(goal, found)
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
      expiry_slot: slot + DEMO_LIFE_SLOTS,
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

  /** The newest state of an order in the events. */
  order(order_id: string): Order | undefined {
    const states = this.events.filter(
      ({ kind, data }) => kind.startsWith('order.') && (data as Order).order_id === order_id,
    )
    return states.at(-1)?.data as Order | undefined
  }
  fillsOf(order_id: string, stage: 'matched' | 'finalized'): Fill[] {
    return this.events
      .filter(({ kind, data }) => kind === `fill.${stage}` && (data as Fill).order_id === order_id)
      .map((event) => event.data as Fill)
  }
  untilOrder(order_id: string, status: Order['status']): Promise<Order> {
    return this.until(`order ${short(order_id)} to be ${status}`, () => {
      const order = this.order(order_id)
      return order?.status === status ? order : undefined
    })
  }
  untilFills(order_id: string, stage: 'matched' | 'finalized', count: number): Promise<Fill[]> {
    return this.until(`fill ${count} to be ${stage}`, () => {
      const fills = this.fillsOf(order_id, stage)
      return fills.length >= count ? fills : undefined
    })
  }
}

const COMMAND = new URL('../../tools/account/main.ts', import.meta.url).pathname

/** Runs `bun run account`, the operator's command. */
async function operator(args: string[]): Promise<void> {
  const child = Bun.spawn([process.execPath, COMMAND, ...args], { stdout: 'pipe', stderr: 'pipe' })
  const failure = await new Response(child.stderr).text()
  if ((await child.exited) !== 0) throw new DemoFailed(`bun run account ${args[0]}: ${failure}`)
}

/** The login of a trader's account: made from its seed on the first run, and admitted by the operator's command. */
export async function account(
  dir: string,
  { name, wallet }: Trader,
  facts: SandboxFacts,
  venue: string,
): Promise<Login> {
  const file = join(dir, `${name}-login.json`)
  if (existsSync(file)) return JSON.parse(readFileSync(file, 'utf8')) as Login
  const asked = join(dir, `${name}-request.json`)
  const terms = { kind: 'trade', version: Date.now(), expiry_s: 0 } as const
  const { login, request } = await newCredential(deriveAccountKey(wallet.seed), fromHex(venue, 32)!, terms)
  writeFileSync(asked, JSON.stringify(request))
  const target = ['--url', facts.operator_url, '--venue', venue, '--ca', facts.certificate]
  await operator(['admit', '--operator-key', facts.operator_key, '--request', asked, ...target])
  writeFileSync(file, JSON.stringify(login), { mode: 0o600 })
  fact(
    `account ${name}`,
    `key and secrets made by the trader, admitted by the operator, api key ${short(login.api_key)}`,
  )
  return login
}

/** Opens the trader's wallet and chain key; generates them on the first run. */
export async function openTrader(dir: string, name: string, rpc_url: string): Promise<Trader> {
  const wallet_path = join(dir, `${name}-wallet.json`)
  const payer_path = join(dir, `${name}-payer.hex`)
  const wallet = loadWallet(wallet_path) ?? new Wallet(crypto.getRandomValues(new Uint8Array(32)))
  saveWallet(wallet_path, wallet)
  if (!existsSync(payer_path)) {
    const seed = crypto.getRandomValues(new Uint8Array(32))
    writeFileSync(payer_path, Buffer.from(seed).toString('hex'), { mode: 0o600 })
  }
  const payer_seed = fromHex(readFileSync(payer_path, 'utf8'), 32)!
  return new Trader(name, wallet, wallet_path, await openChainAccess(rpc_url, payer_seed))
}
