/** Requests of others than the trader to the venue: public reads, the operator's calls, and traders with their sockets. */
import type { Login } from '../../client/api/venue_client'
import { prepareRebind } from '../../client/wallet/account'
import { Wallet } from '../../client/wallet/wallet'
import { operatorHeaders, signReferencePrice } from '../../protocol/bodies/signed_calls'
import { fromHex, utf8 } from '../../protocol/bytes'
import { publicKeyOf } from '../../protocol/sign'
import { DEFAULT_LIMITS, signAdmission } from '../../tools/account/call_operator'
import type { Random } from '../kit/random'
import { accountSeed, OPERATOR_SEED, testCredential } from '../kit/venue/test_login'
import type { Focus } from './guide'
import type { SimulatedTime } from './simulated_time'
import type { SimulatedVenue } from './simulated_venue'
import { errors } from './worlds/fronts'
import { MARKET_ACCOUNT, SOURCE, SOURCE_SEED } from './worlds/world'

const READS = [
  ...['/tree/root', '/transparency', '/system/status', '/settlement/status', '/instruments', '/health'],
  ...[
    '/instruments/SOL-USDC',
    '/time',
    '/attestation',
    '/attestation/leader',
    '/evidences/quote.json',
    '/info',
  ],
]
/** Quotes over the caller's nonce, for one caller or shared by several. */
const QUOTES = ['/attestation?reportData=', '/attestation?nonce=', '/attestation/leader?nonce=']
const OWN_READS = [
  ...['/account', '/orders', '/fills', '/events', `/nonces?trading_key=${'00'.repeat(32)}`],
  ...['/tree/leaves?from=0&limit=3', '/tree/leaves?from=1', '/tree/inclusion?leaf_index=0'],
  ...['/instruments/SOL-USDC/statistics', '/instruments/SOL-USDC/statistics?period=day'],
]
const STREAMS = ['/ws/trading', '/ws/trading', '/ws/orders', '/ws/fills']
/** Of the accounts that the operator admits while the venue runs. */
const GUESTS = 3
type Operation = [method: 'GET' | 'POST', path: string, body?: object]

export class Traffic {
  private nonce = 0
  private version = 1
  constructor(
    private readonly venue: SimulatedVenue,
    private readonly time: SimulatedTime,
    private readonly focus: Focus,
    private readonly broken: (law: string) => void,
  ) {}

  /**
   * One of them, in a quarter of the slots, or in most where a run is of it.
   * @param login of an account of the market, where its token is a real one
   */
  step(random: Random, login: Login | undefined): void {
    const dice = random.below(12)
    const { focus } = this
    if (dice === 0) void this.read(random)
    else if (dice === 1 || (dice < 9 && focus === 'operator')) void this.operate(random)
    else if (login !== undefined && (dice === 2 || (dice < 9 && focus === 'sessions')))
      void this.session(random, login)
  }

  private async read(random: Random): Promise<void> {
    const dice = random.below(12)
    // Larger than a body may be, with no length that says so.
    if (dice === 0)
      return void (await this.ask('app', ['POST', '/auth/token', { api_key: 'a'.repeat(20_000) }]))
    if (dice < 8) return void (await this.ask('app', ['GET', random.pick(READS)]))
    const path = random.pick(QUOTES)
    const quotes = [1, 2, 3].map(() => this.ask('app', ['GET', `${path}${random.bytes(32).toHex()}`]))
    await Promise.all(quotes)
  }

  private async ask(
    of: 'app' | 'operator',
    [method, path, body]: Operation,
    headers: Record<string, string> = {},
  ): Promise<Response | undefined> {
    const text = body && JSON.stringify(body)
    const request = new Request(`http://venue.test${path}`, {
      method,
      headers: { host: 'venue.test', 'content-type': 'application/json', ...headers },
      ...(text === undefined ? {} : { body: text }),
    })
    const answer = await this.venue.ask(of, request)
    if (answer?.status === 500) this.broken(`${method} ${path} answers 500: ${errors.at(-1)}`)
    return answer
  }

  private get venue_id(): Uint8Array {
    return fromHex(this.venue.open.venue.identity().venue, 32)!
  }
  private now_ms(): number {
    return 1_700_000_000_000 + Math.floor(this.time.passed_ms)
  }

  private async operate(random: Random): Promise<void> {
    const { venue } = this.venue.open
    const guest = `guest ${random.below(GUESTS)}`
    const version = this.version++
    const limits = { ...DEFAULT_LIMITS, keys_max: 10 + random.below(10) }
    const terms = { account_key: publicKeyOf(accountSeed(guest)), version, state: 'active' as const, limits }
    const { venue_id } = this
    const price = {
      ...{ venue: venue_id, symbol: 'ALT-USDC', source: SOURCE, price: 100_000_000n },
      publish_unix_ms: this.now_ms() - random.below(4) * 1_000,
    }
    const carried = venue.versions().version
    const operations: (() => Operation)[] = [
      () => ['GET', '/accounts'],
      () => ['GET', '/metrics'],
      () => ['POST', '/exports', { symbol: 'SOL-USDC', batch: this.batch(random) }],
      () => ['POST', '/instruments', { symbol: 'ALT-USDC', status: random.pick(['active', 'paused']) }],
      () => ['POST', '/activate', { version: carried + random.below(2) }],
      () => ['POST', '/accounts', signAdmission(terms, { operator_seed: OPERATOR_SEED, venue: venue_id })],
      () => ['POST', '/accounts/credentials', testCredential(guest, venue_id, { version }).request],
      () => ['POST', '/references', signReferencePrice(price, SOURCE_SEED)],
    ]
    const operation = random.pick(operations)()
    const [method, target, body] = operation
    this.nonce = Math.max(this.nonce + 1, this.now_ms())
    const signed = {
      venue: venue_id,
      nonce: BigInt(this.nonce),
      expiry_unix_s: Math.floor(this.now_ms() / 1_000) + 30,
      ...{ method, target, body: utf8(body === undefined ? '' : JSON.stringify(body)) },
    }
    await this.ask('operator', operation, operatorHeaders(signed, OPERATOR_SEED))
  }
  /** Mostly one that was decided not long ago. */
  private batch(random: Random): number {
    const newest = this.venue.open.engine.state.instruments.get('SOL-USDC')!.next_batch - 1
    return Math.max(1, newest - random.below(6))
  }

  /** Logs in, reads, opens a socket that cancels when it closes, and logs out or not. */
  private async session(random: Random, login: Login): Promise<void> {
    const { account_id: own, ...credentials } = login
    const answer = await this.ask('app', ['POST', '/auth/token', credentials])
    if (answer?.status !== 200) return
    const { access_token, account_id = own } = (await answer.json()) as {
      access_token: string
      account_id?: string
    }
    const headers = { authorization: `Bearer ${access_token}` }
    await Promise.all([1, 2, 3].map(() => this.ask('app', ['GET', random.pick(OWN_READS)], headers)))
    const socket = this.venue.socket(headers, random.pick(STREAMS))
    const op = (id: string, name: string, params?: object) =>
      socket.send(JSON.stringify({ op: name, id, ...(params && { params }) }))
    socket.onopen = () => {
      op('1', 'ping')
      op('2', 'cancel_on_disconnect', { armed: true })
      if (random.below(3) === 0) op('4', 'cancel_on_disconnect', { armed: false })
      this.time.at(random.below(1_500), () => (random.below(2) === 0 ? socket.cut() : op('3', 'ping')))
    }
    if (random.below(4) === 0) {
      const wallet = new Wallet(random.bytes(32))
      const rebound = prepareRebind(wallet, this.venue_id, 0, account_id!)
      await this.ask('app', ['POST', '/account/rebind', rebound], headers)
      // The one that it has: the venue refuses it.
      const { request } = testCredential(MARKET_ACCOUNT, this.venue_id)
      await this.ask('app', ['POST', '/account/credentials', request], headers)
    }
    if (random.below(2) === 0) await this.ask('app', ['POST', '/auth/token/revoke', {}], headers)
  }
}
