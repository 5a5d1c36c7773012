/** Serves an app over a venue whose unexpected calls throw, with a clock that the test advances and the logged lines. */
import type { Enclave } from '../../../enclave/contract'
import type { LimitState, Session, Venue } from '../../../engine/venue'
import { Refusal } from '../../../protocol/refusals'
import { type App, type AppOptions, createApp } from '../../../server/edge/app'
import { openLog } from '../../../server/edge/log'
import { type Listener, listen } from '../../../server/tls/listen'

export const TOKEN = 'a-good-token'
export const ACCOUNT = 'acct-1'
const LIMIT: LimitState = { capacity: 100, refill_per_s: 50, remaining: 99, retry_after_ms: 0 }

/** Methods not given throw, so that no test passes by a call it did not foresee; `unexpected` collects their names. */
export function only<T extends object>(name: string, given: Partial<T>, unexpected: string[] = []): T {
  return new Proxy(given as T, {
    get(target, method) {
      if (method in target) return Reflect.get(target, method)
      return () => {
        unexpected.push(`${name}.${String(method)}`)
        throw new Error(`unexpected call of ${name}.${String(method)}`)
      }
    },
  })
}

export class StandingClock {
  ms = 1_000_000
  unixMs = (): number => 1_700_000_000_000 + this.ms
  monotonicMs = (): number => this.ms
}

export type Harness = {
  app: App
  listener: Listener
  clock: StandingClock
  lines: string[]
  /** Calls of the venue and the enclave that were not given, such as `venue.place`. */
  unexpected: string[]
  /** Lower case names, so that tests read them as they are. */
  call(method: string, path: string, init?: CallInit): Promise<Answered>
  stop(): Promise<void>
}
export type CallInit = {
  token?: string | null
  headers?: Record<string, string>
  body?: BodyInit
  json?: unknown
}
export type Answered = {
  status: number
  headers: Headers
  text: string
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of many shapes
  json: any
}

export function session(clock: StandingClock, ttl_ms = 900_000): Session {
  const credential = { credential_id: 'cd'.repeat(16), access: 'trade' } as const
  return { account_id: ACCOUNT, token_id: 'ab'.repeat(32), expires_ms: clock.ms + ttl_ms, ...credential }
}

export function openHarness(
  args: {
    venue?: Partial<Venue>
    enclave?: Partial<Enclave>
    options?: Partial<AppOptions>
    unexpected?: string[]
  } = {},
): Harness {
  const clock = new StandingClock()
  const lines: string[] = []
  const { unexpected = [] } = args
  const given: Partial<Venue> = {
    authenticate(token) {
      if (token === TOKEN) return session(clock)
      if (token === 'an-expired-token') throw new Refusal('token_expired')
      if (token === 'a-revoked-token') throw new Refusal('token_revoked')
      throw new Refusal('token_invalid')
    },
    takeLimit: () => LIMIT,
    readUnits: () => 0,
    caughtUp: () => undefined,
    handedOver: () => undefined,
    late: () => undefined,
    ...args.venue,
  }
  const log = openLog((line) => lines.push(line), clock.unixMs)
  const app = createApp({
    venue: only<Venue>('venue', given, unexpected),
    enclave: only<Enclave>('enclave', args.enclave ?? {}, unexpected),
    options: { version: '1.2.3', clock, log, checks_texts: true, ...args.options },
  })
  const listener = listen(app, { hostname: '127.0.0.1', port: 0 })
  return {
    app,
    listener,
    clock,
    lines,
    unexpected,
    call: (method, path, init) => call(listener, method, path, init),
    async stop() {
      app.close()
      await listener.stop(0)
    },
  }
}

async function call(
  listener: Listener,
  method: string,
  path: string,
  init: CallInit = {},
): Promise<Answered> {
  const headers: Record<string, string> = { ...init.headers }
  if (init.token !== null) headers['authorization'] ??= `Bearer ${init.token ?? TOKEN}`
  if (init.json !== undefined) headers['content-type'] ??= 'application/json'
  const body = init.json !== undefined ? JSON.stringify(init.json) : init.body
  const response = await fetch(listener.url + path, {
    method,
    headers,
    ...(body === undefined ? {} : { body }),
  })
  const text = await response.text()
  const json =
    /json/.test(response.headers.get('content-type') ?? '') && text !== '' ? JSON.parse(text) : undefined
  return { status: response.status, headers: response.headers, text, json }
}
