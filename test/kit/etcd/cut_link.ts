/**
 * Carries the connections between a node and a member of etcd, on loopback; the link can be cut, lose replies or delay
 * requests.
 */

import { connect, createServer, type Socket } from 'node:net'

/** A request of a beat, a poll or a look has fewer bytes, an append more. */
const APPEND_BYTES = 1_800

export class CutLink {
  private readonly sockets = new Set<Socket>()
  private readonly server
  private is_cut = false
  private loses_replies = false
  private delay_ms = 0

  private constructor(private readonly to: URL) {
    this.server = createServer((from) => this.join(from))
  }

  static async open(endpoint: string): Promise<CutLink> {
    const link = new CutLink(new URL(endpoint))
    await new Promise<void>((resolve) => link.server.listen(0, '127.0.0.1', resolve))
    return link
  }

  get url(): string {
    return `https://127.0.0.1:${(this.server.address() as { port: number }).port}`
  }

  /** Nothing passes in either direction, and no connection ends. */
  cut(): void {
    this.is_cut = true
    for (const socket of this.sockets) socket.pause()
  }

  /** Requests pass, and their replies are lost. */
  loseReplies(): void {
    this.loses_replies = true
  }

  /** Appends pass so much later, also after their sender has given them up; smaller requests pass at once. */
  delayAppends(ms: number): void {
    this.delay_ms = ms
  }

  /** Waiting bytes pass; a connection that lost a reply ends. */
  mend(): void {
    const ended = this.loses_replies
    this.is_cut = false
    this.loses_replies = false
    this.delay_ms = 0
    for (const socket of this.sockets) {
      if (ended) socket.destroy()
      else socket.resume()
    }
  }

  close(): void {
    for (const socket of this.sockets) socket.destroy()
    this.server.close()
  }

  private join(from: Socket): void {
    const to = connect(Number(this.to.port), this.to.hostname)
    for (const [one, other] of [
      [from, to],
      [to, from],
    ] as const) {
      this.sockets.add(one)
      if (this.is_cut) one.pause()
      let delay_ms = 0
      const later = (act: () => void) => {
        if (delay_ms > 0) setTimeout(act, delay_ms)
        else act()
      }
      one.on('data', (bytes) => {
        if (one === to && this.loses_replies) return
        // Later bytes of this connection stay behind it.
        if (one === from && bytes.length > APPEND_BYTES) delay_ms ||= this.delay_ms
        later(() => other.write(bytes))
      })
      one.on('error', () => undefined)
      one.on('close', () => {
        this.sockets.delete(one)
        // Behind the requests that are delayed.
        later(() => other.destroy())
      })
    }
  }
}
