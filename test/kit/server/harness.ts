/** Serves an app over a venue whose unexpected calls throw, listens with it where a test needs TLS, and sends raw bytes. */

import { createHash, X509Certificate } from 'node:crypto'
import { connect } from 'node:net'
import type { Enclave, TlsMaterial } from '../../../enclave/contract'
import { generateTls } from '../../../enclave/x509'
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

export function listeningApp(): App {
  const clock = new StandingClock()
  const venue = only<Venue>('venue', {
    time: () => ({ slot: 1, unix_ms: 2, slot_ms: 400 }),
    authenticate: () => session(clock),
    caughtUp: () => undefined,
    takeLimit: () => ({ capacity: 1, refill_per_s: 1, remaining: 1, retry_after_ms: 0 }),
    subscribe: async () => ({ seq_first: 1, seq_last: 0, seqNow: () => 0, renew() {}, close() {} }),
  })
  const log = openLog(() => undefined, clock.unixMs)
  return createApp({ venue, enclave: only<Enclave>('enclave', {}), options: { version: '1', clock, log } })
}

export function tlsMaterial(): TlsMaterial {
  return generateTls([], Date.now())
}

/** SHA-256 of a certificate's SubjectPublicKeyInfo, hex. */
export function spkiOf(certificate: string | Uint8Array): string {
  const { publicKey } = new X509Certificate(certificate)
  return createHash('sha256')
    .update(publicKey.export({ type: 'spki', format: 'der' }))
    .digest('hex')
}

/** Code of the status line. */
export function rawStatus(port: number, request: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(request))
    let answer = ''
    socket.on('data', (bytes) => {
      answer += bytes.toString('latin1')
      const match = /^HTTP\/1\.1 ([0-9]{3})/.exec(answer)
      if (match === null) return
      socket.destroy()
      resolve(Number(match[1]))
    })
    socket.on('error', reject)
    socket.on('close', () => reject(new Error('closed without an answer')))
  })
}

/** Head and body of the answer, once the venue has closed the connection. */
export function answered(port: number, request: string): Promise<string[]> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(request))
    let answer = ''
    socket.on('data', (bytes) => {
      answer += bytes.toString('latin1')
    })
    socket.on('error', reject)
    socket.on('end', () => resolve(answer.split('\r\n\r\n')))
  })
}
