/** `fetch` of the product: requests to the simulation's hosts take simulated time, and meet seeded faults. */
import type { Life } from '../awaits'
import { type Context, inVenue, type SimulatedTime } from '../simulated_time'
import { linkSockets } from './link_socket'
import { agent, listening, simulateListening } from './simulated_listen'

/** `before`: it does not arrive; `after`: its answer is lost; `late`: it arrives later than its sender waits; `twice`: it arrives twice. */
export type NetworkFault = 'before' | 'after' | 'late' | 'twice' | 'busy' | 'garbled'
export type Answer = { status: number; content: string | Uint8Array; headers?: Record<string, string> }
/** @param from where the request comes from; undefined from the only process of the venue */
export type Host = (
  path: string,
  init: RequestInit,
  from: Context | undefined,
) => Answer | undefined | Promise<Answer | undefined>

const LATE_MS = 12_000

export class Network {
  readonly hosts = new Map<string, Host>()
  fault: (host: string, from: Context | undefined) => NetworkFault | undefined = () => undefined
  /** The connections of a process that ended end. */
  readonly ended: (life: Life) => void
  /** Longest way of a request or an answer. */
  latency_ms = 12
  constructor(private readonly time: SimulatedTime) {
    simulateListening()
    this.hosts.set('dstack', askAgent)
    this.ended = linkSockets(time, (host, from) => this.fault(host, from) !== undefined)
    const fetch = (url: string | URL, init: RequestInit = {}) => this.fetch(new URL(url), init)
    Object.defineProperty(globalThis, 'fetch', { value: fetch, configurable: true, writable: true })
  }

  private ofProcess(host: string): Host | undefined {
    return listening.has(host) ? (path, init) => answerOf(host, path, init, this.time) : undefined
  }
  private way(): number {
    return 1 + this.time.random.below(this.latency_ms)
  }
  private fetch({ host, pathname }: URL, init: RequestInit): Promise<Response> {
    const { time } = this
    const { current: from } = time
    const { promise, resolve, reject } = Promise.withResolvers<Response>()
    const { signal } = init
    const gone = () => reject(signal!.reason)
    if (signal?.aborted) gone()
    signal?.addEventListener('abort', gone)
    const over = (then: () => void) => {
      signal?.removeEventListener('abort', gone)
      then()
    }
    const lose = () => over(() => reject(new TypeError('connection lost')))
    const serve = this.hosts.get(host) ?? this.ofProcess(host)
    const fault = serve === undefined ? 'before' : this.fault(host, from)
    if (fault === 'before') {
      time.at(this.way(), lose, from)
      return promise
    }
    const arrive = async () => {
      // Also when its sender has ended meanwhile.
      const answer = await serve!(pathname, init, from)
      if (answer === undefined) return lose()
      const back = () => {
        if (fault === 'after') return lose()
        if (fault === 'busy') return over(() => resolve(responseOf({ status: 503, content: 'busy' })))
        const { content } = answer
        const shown = fault === 'garbled' ? content.slice(0, content.length / 2) : content
        over(() => resolve(responseOf({ ...answer, content: shown })))
      }
      time.at(this.way(), back, from)
    }
    // A process whose request is lost between two schedules would wait for an answer.
    time.at(fault === 'late' ? LATE_MS : this.way(), arrive).stays = from?.side === 'venue'
    if (fault === 'twice') time.at(this.way() + this.latency_ms, () => serve!(pathname, init, from))
    return promise
  }
}

/** The guest agent at its socket. */
async function askAgent(path: string, { method = 'GET', body }: RequestInit): Promise<Answer | undefined> {
  const request = new Request(`http://dstack${path}`, { method, ...(body == null ? {} : { body }) })
  const answer = await agent.fetch?.(request)
  return answer && { status: answer.status, content: await answer.text() }
}

/** Undefined where no process listens, or the one that did ended before it answered. */
async function answerOf(host: string, path: string, init: RequestInit, time: SimulatedTime) {
  const at = listening.get(host)
  if (at?.life.alive !== true) return undefined
  const { app, life } = at
  const headers = { ...Object.fromEntries(new Headers(init.headers)), host }
  const request = new Request(`https://${host}${path}`, {
    method: init.method ?? 'GET',
    headers,
    ...(init.body == null ? {} : { body: init.body }),
  })
  const response = await time.inside(inVenue(life), () => app.fetch(request))
  const content = new Uint8Array(await response.arrayBuffer())
  return life.alive ? { status: response.status, content } : undefined
}

/** The parts of a response that `askBounded` and the ACME client read. */
function responseOf({ status, content, headers }: Answer): Response {
  const bytes = typeof content === 'string' ? new TextEncoder().encode(content) : content
  const parts = [bytes]
  const reader = {
    read: async () => ({ value: parts.shift(), done: parts.length === 0 }),
    cancel: async () => undefined,
  }
  const ok = status >= 200 && status < 300
  const each = async function* () {
    yield* parts
  }
  const body = { getReader: () => reader, cancel: async () => undefined, [Symbol.asyncIterator]: each }
  return { status, ok, headers: new Headers(headers), body } as never
}
