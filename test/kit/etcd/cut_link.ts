/** Stands between a node and a member of etcd, on loopback; the link can be cut, as a network does, and joined again. */

import { connect, createServer, type Socket } from 'node:net'

export class CutLink {
  private readonly sockets = new Set<Socket>()
  private readonly server
  private is_cut = false

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

  /** What waited passes; what was sent to nobody is lost. */
  mend(): void {
    this.is_cut = false
    for (const socket of this.sockets) socket.resume()
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
      one.on('data', (bytes) => other.write(bytes))
      one.on('error', () => undefined)
      one.on('close', () => {
        this.sockets.delete(one)
        other.destroy()
      })
    }
  }
}
