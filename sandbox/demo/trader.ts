/** Drives one trader of the demo: account, wallet, chain access, and the session that trades for it. */

import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type ChainAccess, openChainAccess } from '../../client/chain/index'
import {
  type AccountEvent,
  deriveAccountKey,
  type Fill,
  type Instrument,
  type Login,
  loadWallet,
  newCredential,
  type Order,
  type Outcome,
  Session,
  type SessionOrder,
  saveWallet,
  type VenueClient,
  type VerifiedVenue,
  Wallet,
} from '../../client/index'
import { DEMO_EVENT_MAX_MS, DEMO_LIFE_SLOTS } from '../../client/limits'
import { fromHex } from '../../protocol/bytes'
import type { SandboxFacts } from '../open_sandbox'
import { available, DemoFailed, fact, short, waiting } from './report'

export class Trader {
  readonly events: AccountEvent[] = []
  session!: Session

  constructor(
    readonly name: string,
    readonly wallet: Wallet,
    private readonly wallet_path: string,
    /** Replaced after a restart, because the embedded chain may then serve on another port. */
    public chain: ChainAccess,
  ) {}

  get client(): VenueClient {
    return this.session.client
  }

  /** Follows the account's events after the last one in the wallet. */
  async connect(facts: SandboxFacts, venue: VerifiedVenue, login: Login): Promise<void> {
    // The session before a restart belongs to another process.
    if (this.session !== undefined) this.session.close()
    this.session = await Session.open({
      url: facts.url,
      policy: readFileSync(facts.policy, 'utf8'),
      login,
      wallet: { wallet: this.wallet, save: () => this.save() },
      open_venue: async () => venue,
      event: (event) => this.note(event),
    })
  }
  close(): void {
    this.session.close()
  }
  save(): void {
    saveWallet(this.wallet_path, this.wallet)
  }
  private note(event: AccountEvent): void {
    const last = this.events.at(-1)
    if (last !== undefined && event.seq !== last.seq + 1)
      throw new DemoFailed(`${this.name}: events are not gapless`)
    this.events.push(event)
  }

  /** Resolves with the first value of `find`, called again after each event. @throws DemoFailed after a timeout */
  until<T>(goal: string, find: () => T | undefined): Promise<T> {
    let late: Timer | undefined
    const timeout = new Promise<never>((_, reject) => {
      const failed = new DemoFailed(`${this.name}: waited in vain for ${goal}`)
      late = setTimeout(() => reject(failed), DEMO_EVENT_MAX_MS)
    })
    return waiting(goal, Promise.race([this.session.until(find), timeout])).finally(() => clearTimeout(late))
  }

  /** Places an order backed by the smallest note that covers it. */
  async place({ symbol }: Instrument, terms: Omit<SessionOrder, 'symbol'>): Promise<string> {
    const order = { ...terms, symbol, life_slots: DEMO_LIFE_SLOTS }
    return this.accepted('an order', () => this.session.place(order, { merge: false }))
  }
  async cancel(order_id: string): Promise<void> {
    await this.accepted('a cancel', () => this.session.cancel(order_id))
  }
  /** The id of an accepted request. @throws DemoFailed */
  accepted(request: string, make: () => Promise<Outcome>): Promise<string> {
    return available(async () => {
      const outcome = await make()
      if (outcome.status === 'accepted') return outcome.id
      const code = outcome.status === 'refused' ? outcome.problem.code : 'no answer'
      throw new DemoFailed(`${this.name}: ${request} was ${outcome.status} (${code})`, code)
    })
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
  if ((await child.exited) === 0) return
  throw new DemoFailed(`bun run account ${args[0]}: ${failure}`, /"code":"(\w+)"/.exec(failure)?.[1])
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
  const admit = ['admit', '--operator-key', facts.operator_key, '--request', asked, ...target]
  await available(() => operator(admit))
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
