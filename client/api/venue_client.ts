/** Calls every endpoint of the venue over the pinned connection, with a token that it renews. */

import type { RefusalCode } from '../../protocol/refusals'
import { MustStop, TacitError } from '../../protocol/tacit_error'
import type * as wire from '../../protocol/wire/trading'
import type { Problem } from '../../protocol/wire/trading'
import { VENUE_CALL_MS } from '../limits'
import { printable } from '../verify/transcript'

/** A connection to one venue: `connect` gives a pinned one. */
export type Transport = {
  /** HTTPS origin without a trailing slash. */
  readonly base_url: string
  fetch(path: string, init?: RequestInit): Promise<Response>
  /** Opens a `wss` stream under the same pin. */
  webSocket(path: string, headers?: Record<string, string>): WebSocket
  /** Looks, before a stream is opened again, whether the venue is still the verified one. @throws as `fetch` */
  look?(): Promise<void>
}

/** The venue rejected a call: an RFC 9457 problem with a stable code. */
export class VenueProblem extends TacitError<Problem> {
  override readonly name = 'VenueProblem'
  readonly status: number
  readonly code: RefusalCode
  /** `yes` only for an identical resend, `unknown` only with status 500, else `no`: nothing changed. */
  readonly applied: Problem['applied']
  constructor(readonly problem: Problem) {
    // One line for any answer of the venue: its reader's terminal or log shows it between lines of others.
    super(printable(`${problem.code}: ${problem.message}`), problem)
    this.status = problem.status
    this.code = problem.code as RefusalCode
    this.applied = problem.applied
  }
}

type CallOptions = {
  method?: 'GET' | 'POST' | 'PUT' | 'DELETE'
  token?: string
  body?: unknown
}

/** Resolves with the resource. @throws VenueProblem, or the error of `fetch` for a lost connection */
async function call<T>(
  transport: Transport,
  path: string,
  options: CallOptions & { timeout_ms: number },
): Promise<T> {
  const headers: Record<string, string> = { accept: 'application/json' }
  if (options.token !== undefined) headers['authorization'] = `Bearer ${options.token}`
  if (options.body !== undefined) headers['content-type'] = 'application/json'
  // An answer that never comes is a lost one.
  const signal = AbortSignal.timeout(options.timeout_ms)
  const init: RequestInit = { method: options.method ?? 'GET', headers, signal }
  if (options.body !== undefined) init.body = JSON.stringify(options.body)
  const response = await transport.fetch(path, init)
  if (response.ok) return (await response.json()) as T
  throw new VenueProblem((await response.json()) as Problem)
}

function query(fields: Record<string, string | number | undefined>): string {
  const set = Object.entries(fields).filter(([, value]) => value !== undefined)
  return set.length === 0 ? '' : `?${new URLSearchParams(set.map(([name, value]) => [name, String(value)]))}`
}

/** Logs in to one account: the secrets of a credential and the account that its trader made it for. */
export type Login = wire.TokenRequest & {
  /** `accountIdOf` the own account key, 64 hex digits. */
  account_id: string
}

/**
 * The venue logs this credential in to an account of another key, whose holder reads every order: an operator can admit a
 * copy of the credential's hashes under another key. Nothing was asked or sent under that token.
 */
export class WrongAccount extends MustStop {
  override readonly name = 'WrongAccount'
  readonly code = 'wrong_account'
  constructor() {
    super(
      'the venue logs this credential in to another account: send no order with it, and make a new credential',
      {},
    )
  }
}

type PageQuery = { after?: number; limit?: number }
/** Share of a token's life after which the next call logs in again. */
const RENEW_AT = 0.8
/** A 401 with one of these codes changed nothing. */
const DEAD_TOKEN: ReadonlySet<string> = new Set(['token_invalid', 'token_expired', 'token_revoked'])

/**
 * Logs in on the first call, again when most of the token's life is over, and once more when the venue has forgotten it.
 * Every call rejects with `VenueProblem` when the venue rejects it. Any other error, as of a lost connection, leaves the
 * outcome of a command open: send the identical request again, and `order_exists` carries the original result.
 */
export class VenueClient {
  private session: { token: string; renew_at: number } | undefined
  private logging_in: Promise<string> | undefined
  constructor(
    readonly transport: Transport,
    private readonly credentials: Login,
    /** Longest wait for an answer; after it a command's outcome is open, as after a lost connection. */
    private readonly timeout_ms: number = VENUE_CALL_MS,
  ) {}

  /** The own account's id; concurrent callers share one login. @throws WrongAccount, VenueProblem */
  login(): Promise<string> {
    this.logging_in ??= this.newSession().finally(() => {
      this.logging_in = undefined
    })
    return this.logging_in
  }
  private async newSession(): Promise<string> {
    const { account_id, api_key, api_secret, passphrase } = this.credentials
    const body: wire.TokenRequest = { api_key, api_secret, passphrase }
    const answer = await this.call<wire.TokenResponse>('/auth/token', { method: 'POST', body })
    // Without an account to compare with, any would do.
    if (typeof account_id !== 'string' || answer.account_id !== account_id) throw new WrongAccount()
    const renew_at = performance.now() + answer.expires_in * 1000 * RENEW_AT
    this.session = { token: answer.access_token, renew_at }
    return account_id
  }
  /** A current token; logs in when there is none. */
  async token(): Promise<string> {
    if (this.session === undefined || performance.now() > this.session.renew_at) await this.login()
    return this.session!.token
  }
  async revoke(): Promise<void> {
    await this.own('/auth/token/revoke', { method: 'POST' })
    this.session = undefined
  }

  place(body: wire.PlaceRequest): Promise<wire.PlaceResult> {
    return this.own('/orders', { method: 'POST', body })
  }
  check(body: wire.CheckRequest): Promise<{ ok: true }> {
    return this.own('/orders/check', { method: 'POST', body })
  }
  cancel(order_id: string, body: wire.CancelRequest): Promise<wire.CancelResult> {
    return this.own(`/orders/${order_id}`, { method: 'DELETE', body })
  }
  modify(order_id: string, body: wire.ModifyRequest): Promise<wire.ModifyResult> {
    return this.own(`/orders/${order_id}`, { method: 'PUT', body })
  }
  cancelAll(body: wire.CancelAllRequest | wire.CancelAllRequest[]): Promise<wire.CancelAllResult> {
    return this.own('/orders/cancel-all', { method: 'POST', body })
  }
  deadMan(body: wire.DeadManRequest): Promise<wire.DeadManResult> {
    return this.own('/orders/dead-man', { method: 'POST', body })
  }
  withdraw(body: wire.WithdrawalRequest): Promise<wire.Withdrawal & { receipt: wire.Receipt }> {
    return this.own('/withdrawals', { method: 'POST', body })
  }
  reshape(body: wire.ReshapeRequest): Promise<wire.Reshape & { receipt: wire.Receipt }> {
    return this.own('/notes/reshape', { method: 'POST', body })
  }

  order(order_id: string): Promise<wire.Order> {
    return this.own(`/orders/${order_id}`)
  }
  orders(
    filter: PageQuery & { status?: 'open' | wire.OrderStatus; symbol?: string } = {},
  ): Promise<wire.Page<wire.Order>> {
    return this.own(`/orders${query(filter)}`)
  }
  fills(page: PageQuery = {}): Promise<wire.Page<wire.Fill>> {
    return this.own(`/fills${query(page)}`)
  }
  events(page: PageQuery = {}): Promise<wire.Page<wire.AccountEvent>> {
    return this.own(`/events${query(page)}`)
  }
  statistics(
    symbol: string,
    page: PageQuery & { period?: wire.StatisticsPeriod } = {},
  ): Promise<wire.Statistics> {
    return this.own(`/instruments/${symbol}/statistics${query(page)}`)
  }
  nonces(trading_key: string): Promise<wire.Nonces> {
    return this.own(`/nonces${query({ trading_key })}`)
  }
  withdrawal(id: string): Promise<wire.Withdrawal> {
    return this.own(`/withdrawals/${id}`)
  }
  reshapeOf(id: string): Promise<wire.Reshape> {
    return this.own(`/notes/reshape/${id}`)
  }
  inclusion(target: { commitment?: string; leaf_index?: number }): Promise<wire.TreeInclusion> {
    return this.own(`/tree/inclusion${query(target)}`)
  }
  leaves(from: number, limit: number): Promise<wire.TreeLeaves> {
    return this.own(`/tree/leaves${query({ from, limit })}`)
  }
  settlement(): Promise<wire.SettlementHealth> {
    return this.own('/settlement/status')
  }
  settlementBatch(batch: number): Promise<wire.SettlementBatchStage> {
    return this.own(`/settlement/status${query({ batch })}`)
  }
  settlementOfOrder(order_id: string): Promise<{ order_id: string; fills: wire.Fill[] }> {
    return this.own(`/settlement/status${query({ order_id })}`)
  }

  account(): Promise<wire.AccountView> {
    return this.own('/account')
  }
  /** Replacing the own credential ends this client's token: log in with the new one. */
  setCredential(body: wire.CredentialRequest): Promise<wire.CredentialResult> {
    return this.own('/account/credentials', { method: 'POST', body })
  }
  rebind(body: wire.RebindRequest): Promise<wire.RebindResult> {
    return this.own('/account/rebind', { method: 'POST', body })
  }

  info(): Promise<wire.Info> {
    return this.call('/info')
  }
  time(): Promise<wire.ServerTime> {
    return this.call('/time')
  }
  status(): Promise<wire.SystemStatus> {
    return this.call('/system/status')
  }
  instruments(): Promise<wire.Instrument[]> {
    return this.call('/instruments')
  }
  instrument(symbol: string): Promise<wire.InstrumentView> {
    return this.call(`/instruments/${symbol}`)
  }
  treeRoot(): Promise<wire.TreeRoot> {
    return this.call('/tree/root')
  }
  transparency(): Promise<wire.Transparency> {
    return this.call('/transparency')
  }

  /** Retries once with a new token: tokens end with the venue process that issued them. */
  private async own<T>(path: string, options: CallOptions = {}): Promise<T> {
    const token = await this.token()
    try {
      return await this.call<T>(path, { ...options, token })
    } catch (error) {
      if (!(error instanceof VenueProblem) || !DEAD_TOKEN.has(error.code)) throw error
      this.forget(token)
      return this.call<T>(path, { ...options, token: await this.token() })
    }
  }
  private call<T>(path: string, options: CallOptions = {}): Promise<T> {
    return call<T>(this.transport, path, { ...options, timeout_ms: this.timeout_ms })
  }
  /** Discards `token`, unless a newer one has replaced it. */
  forget(token: string): void {
    if (this.session?.token === token) this.session = undefined
  }
}
