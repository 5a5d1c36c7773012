/** Requests of others to the venue: public reads, the operator's calls, and sockets that cancel when they close. */
import type { Login } from '../../client/api/venue_client'
import { operatorHeaders } from '../../protocol/bodies/signed_calls'
import { fromHex, utf8 } from '../../protocol/bytes'
import type { Random } from '../kit/random'
import { OPERATOR_SEED } from '../kit/venue/test_login'
import type { SimulatedTime } from './simulated_time'
import type { SimulatedVenue } from './simulated_venue'

const READS = [
  ...['/tree/root', '/tree/leaves?from=0&limit=3', '/tree/inclusion?leaf_index=0', '/transparency'],
  ...['/system/status', '/settlement/status', '/instruments', '/instruments/SOL-USDC', '/health'],
  ...['/instruments/SOL-USDC/statistics', '/instruments/SOL-USDC/statistics?period=day', '/time'],
]
const OWN_READS = ['/account', '/orders', '/fills', '/events', '/nonces?trading_key=']
type Operation = [method: 'GET' | 'POST', path: string, body?: object]

export class Traffic {
  private nonce = 0
  constructor(
    private readonly venue: SimulatedVenue,
    private readonly time: SimulatedTime,
    private readonly broken: (law: string) => void,
  ) {}

  /** One of them, in a quarter of the slots. @param login of an account of the market, where its token is a real one */
  step(random: Random, login: Login | undefined): void {
    const dice = random.below(12)
    if (dice === 0) void this.ask('app', ['GET', random.pick(READS)], {})
    else if (dice === 1) void this.operate(random)
    else if (dice === 2 && login !== undefined) void this.session(random, login)
  }

  private async ask(
    of: 'app' | 'operator',
    [method, path, body]: Operation,
    headers: Record<string, string>,
  ): Promise<Response | undefined> {
    const text = body && JSON.stringify(body)
    const request = new Request(`http://venue.test${path}`, {
      method,
      headers: { host: 'venue.test', 'content-type': 'application/json', ...headers },
      ...(text === undefined ? {} : { body: text }),
    })
    const answer = await this.venue.ask(of, request)
    if (answer?.status === 500) this.broken(`${method} ${path} answers 500`)
    return answer
  }

  private async operate(random: Random): Promise<void> {
    const { venue } = this.venue.open
    const operation = random.pick<Operation>([
      ['GET', '/accounts'],
      ['GET', '/metrics'],
      ['POST', '/exports', { symbol: 'SOL-USDC', batch: 1 + random.below(60) }],
      ['POST', '/instruments', { symbol: 'ALT-USDC', status: random.pick(['active', 'paused']) }],
      ['POST', '/activate', { version: venue.versions().version }],
    ])
    const [method, target, body] = operation
    const now_ms = 1_700_000_000_000 + Math.floor(this.time.passed_ms)
    this.nonce = Math.max(this.nonce + 1, now_ms)
    const signed = {
      venue: fromHex(venue.identity().venue, 32)!,
      nonce: BigInt(this.nonce),
      expiry_unix_s: Math.floor(now_ms / 1_000) + 30,
      ...{ method, target, body: utf8(body === undefined ? '' : JSON.stringify(body)) },
    }
    await this.ask('operator', operation, operatorHeaders(signed, OPERATOR_SEED))
  }

  /** Logs in, reads, opens a socket that cancels when it closes, and logs out or not. */
  private async session(random: Random, login: Login): Promise<void> {
    const { account_id: _, ...credentials } = login
    const answer = await this.ask('app', ['POST', '/auth/token', credentials], {})
    if (answer?.status !== 200) return
    const { access_token } = (await answer.json()) as { access_token: string }
    const headers = { authorization: `Bearer ${access_token}` }
    const reads = OWN_READS.map((path) => (path.endsWith('=') ? `${path}${'00'.repeat(32)}` : path))
    await this.ask('app', ['GET', random.pick(reads)], headers)
    const socket = this.venue.tradingSocket(headers)
    const op = (id: string, name: string, params?: object) =>
      socket.send(JSON.stringify({ op: name, id, ...(params && { params }) }))
    socket.onopen = () => {
      op('1', 'ping')
      op('2', 'cancel_on_disconnect', { armed: true })
      this.time.at(random.below(1_500), () => (random.below(2) === 0 ? socket.cut() : op('3', 'ping')))
    }
    if (random.below(2) === 0) await this.ask('app', ['POST', '/auth/token/revoke', {}], headers)
  }
}
