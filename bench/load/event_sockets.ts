/** Opens many WebSocket clients that count received messages. */
import type { Target } from './https_lanes'

export type Received = { messages: number; bytes: number; elapsed_ms: number }

export class EventSockets {
  private readonly sockets: WebSocket[] = []
  private wanted = Number.POSITIVE_INFINITY
  private counts: Int32Array
  private complete = 0
  private bytes = 0
  private first_ms = 0
  private done = Promise.withResolvers<void>()

  private constructor(private readonly count: number) {
    this.counts = new Int32Array(count)
  }

  static async open(args: {
    target: Target
    path: string
    tokens: string[]
    count: number
  }): Promise<EventSockets> {
    const all = new EventSockets(args.count)
    await Promise.all(Array.from({ length: args.count }, (_, at) => all.connect(args, at)))
    return all
  }

  async receive(each: number): Promise<Received> {
    this.wanted = each
    for (const count of this.counts) if (count >= each) this.complete++
    if (this.complete < this.count) await this.done.promise
    const elapsed_ms = performance.now() - this.first_ms
    const result = { messages: this.count * each, bytes: this.bytes, elapsed_ms }
    this.counts = new Int32Array(this.count)
    this.done = Promise.withResolvers()
    this.complete = this.bytes = this.first_ms = 0
    this.wanted = Number.POSITIVE_INFINITY
    return result
  }

  close(): void {
    for (const socket of this.sockets) socket.close()
  }

  private connect(
    { target, path, tokens }: { target: Target; path: string; tokens: string[] },
    at: number,
  ): Promise<void> {
    const token = encodeURIComponent(tokens[at % tokens.length]!)
    const url = `wss://localhost:${target.port}${path}${path.includes('?') ? '&' : '?'}token=${token}`
    const socket = new WebSocket(url, { tls: { ca: target.certificate } } as unknown as string[])
    this.sockets.push(socket)
    socket.onmessage = ({ data }: MessageEvent<string>) => this.countOne(at, data)
    return new Promise((resolve, reject) => {
      socket.onopen = () => resolve()
      socket.onerror = () => reject(new Error('a socket did not open'))
    })
  }

  /** Greetings and heartbeats are not counted. */
  private countOne(at: number, text: string): void {
    if (text.startsWith('{"type":') && !text.startsWith('{"type":"event"')) return
    if (this.first_ms === 0) this.first_ms = performance.now()
    this.bytes += text.length
    this.counts[at]! += 1
    if (this.counts[at] === this.wanted && ++this.complete === this.count) this.done.resolve()
  }
}
