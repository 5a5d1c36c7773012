/** Sends the requests that this node passes on to the leading node over one connection, in order. */

import { toHex } from '../../protocol/bytes'
import { Refusal } from '../../protocol/refusals'
import {
  LINK_CALL_MS,
  LINK_OPEN_MS,
  LINK_PASSED_MAX,
  LINK_SILENT_MS,
  LINK_SOCKETS_PART,
  LINK_STREAM_BUFFER_BYTES,
} from '../limits'
import { parseUnarmed, type Sockets } from './questions'
import type { SealedLink } from './sealed_link'
import { Stream } from './stream'

type Settle = { resolve: (answer: object) => void; reject: (error: Refusal) => void; until_ms: number }

export class PassStream {
  private readonly stream: Stream
  private readonly links = new Map<string, SealedLink>()
  private readonly waiting = new Map<number, Settle>()
  /** Requests that were given up, and count at the leading node until it answers. */
  private readonly given_up = new Set<number>()
  private readonly timer: ReturnType<typeof setInterval>
  private numbered = 0
  private is_open = true
  /** Time of the first of the newest answers that show no connection of this node at the leading one. */
  private absent_ms: number | undefined
  /** Epoch of the leading node, by its last answer on a link that this connection carries. */
  epoch = 0

  private constructor(
    readonly url: string,
    private readonly socket: WebSocket,
  ) {
    this.stream = new Stream(
      'passes',
      (id) => this.links.get(id),
      (frame) => socket.send(new Uint8Array(frame)),
    )
    socket.onmessage = ({ data }) => {
      try {
        const { messages } = this.stream.take(new Uint8Array(data as ArrayBuffer))
        for (const [number, answer] of messages) this.settle(number, ({ resolve }) => resolve(answer))
      } catch {
        this.close()
      }
    }
    socket.onclose = () => this.close()
    this.timer = setInterval(() => this.expire(), 1_000)
    this.timer.unref()
  }

  /** TLS shows nothing here, as for the other calls of a link. @throws when there is no connection in time */
  static async open(url: string): Promise<PassStream> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const options = { tls: { rejectUnauthorized: false } } as unknown as string
    const socket = new WebSocket(`${url.replace(/^http/, 'ws')}/links/stream`, options)
    socket.binaryType = 'arraybuffer'
    socket.onopen = () => resolve()
    socket.onclose = () => reject(new Error('no stream'))
    socket.onerror = () => reject(new Error('no stream'))
    const timer = setTimeout(() => reject(new Error('no stream')), LINK_OPEN_MS)
    try {
      await promise
      return new PassStream(url, socket)
    } catch (error) {
      socket.close()
      throw error
    } finally {
      clearTimeout(timer)
    }
  }

  isOpen(): boolean {
    return this.is_open
  }
  carries(link: SealedLink): boolean {
    return this.is_open && this.links.has(toHex(link.id))
  }

  /** The host may keep only this side open: it ends where the leading node has had none for LINK_SILENT_MS. */
  carried(is_carried: boolean | undefined, now_ms: number): void {
    this.absent_ms = is_carried ? undefined : (this.absent_ms ?? now_ms)
    if (this.absent_ms !== undefined && now_ms - this.absent_ms >= LINK_SILENT_MS) this.close()
  }

  /** Frames that the leading node should have received. */
  get sent(): number {
    return this.stream.sent
  }

  /**
   * Says first which armed sockets are open here.
   * @param unarmed those of them that the leading node has not armed
   * @throws Error for a link that another connection carries
   */
  begin(link: SealedLink, open: readonly string[], unarmed: (origins: readonly string[]) => void): void {
    try {
      this.carry(link)
    } catch (error) {
      this.close()
      throw error
    }
    for (let from = 0; ; from += LINK_SOCKETS_PART) {
      const to = from + LINK_SOCKETS_PART
      const more = to < open.length
      const part: Sockets = { kind: 'sockets', open: open.slice(from, to), more }
      const answer = this.ask(part)
      // Without an answer the connection has ended, and the next one begins with it.
      answer.then((one) => more || unarmed(parseUnarmed(one).unarmed)).catch(() => this.close())
      if (!more) return
    }
  }

  /**
   * Continues under a newer link, and shows it to the leading node, which counts this one as living by it. Frames of the link
   * before are still answered. @throws Error for a link that another connection carries
   */
  renew(link: SealedLink): void {
    this.carry(link)
    this.stream.show()
  }

  private carry(link: SealedLink): void {
    this.stream.use(link)
    this.links.set(toHex(link.id), link)
    if (this.links.size > 2) this.links.delete(this.links.keys().next().value!)
  }

  /** @throws Refusal `matching_unavailable` if too many wait, `outcome_unknown` without an answer */
  ask(content: object): Promise<object> {
    if (!this.is_open) return Promise.reject(new Refusal('lease_lost'))
    const counted = this.waiting.size + this.given_up.size
    const is_full = counted >= LINK_PASSED_MAX || this.socket.bufferedAmount > LINK_STREAM_BUFFER_BYTES
    if (is_full) return Promise.reject(new Refusal('matching_unavailable', { subsystem: 'link' }))
    const number = ++this.numbered
    const { promise, ...settle } = Promise.withResolvers<object>()
    this.waiting.set(number, { ...settle, until_ms: performance.now() + LINK_CALL_MS })
    this.stream.push(number, content)
    return promise
  }

  /** Waiting requests have no answer: they may have been executed. */
  close(): void {
    if (!this.is_open) return
    this.is_open = false
    clearInterval(this.timer)
    this.socket.close()
    for (const number of [...this.waiting.keys()])
      this.settle(number, ({ reject }) => reject(new Refusal('outcome_unknown')))
  }

  private expire(): void {
    const now_ms = performance.now()
    for (const [number, { until_ms }] of this.waiting) {
      if (until_ms > now_ms) return
      this.settle(number, ({ reject }) => reject(new Refusal('outcome_unknown')))
      this.given_up.add(number)
    }
  }

  private settle(number: number, how: (settle: Settle) => void): void {
    const settle = this.waiting.get(number)
    this.waiting.delete(number)
    this.given_up.delete(number)
    if (settle !== undefined) how(settle)
  }
}
