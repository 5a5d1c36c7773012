/** Keeps HTTP/1.1 connections over TLS, one request at a time each, and WebSocket clients that count what they receive. */
import type { Socket } from 'bun'

export type Target = { port: number; certificate: string }
export type Answered = { status: number; body: string }

type Lane = {
  socket: Socket<Lane>
  /** Bytes that the socket has not accepted yet: on a loaded machine its buffer is full at times. */
  unsent: Uint8Array
  received: string
  done: ((answer: Answered) => void) | undefined
}

export class HttpsLanes {
  private readonly free: Lane[] = []
  private readonly all: Lane[] = []
  /** Connections that have ended. */
  ended = 0

  static async open(target: Target, count: number): Promise<HttpsLanes> {
    const lanes = new HttpsLanes()
    await Promise.all(Array.from({ length: count }, () => lanes.connect(target)))
    return lanes
  }

  get idle(): number {
    return this.free.length
  }

  /** Sends on a free lane; false when none is. `done` runs with the whole answer. */
  send(request: Buffer, done: (answer: Answered) => void): boolean {
    // In turn: the venue closes a connection that idles for a minute.
    const lane = this.free.shift()
    if (lane === undefined) return false
    lane.done = done
    lane.unsent = request.subarray(lane.socket.write(request))
    return true
  }

  close(): void {
    for (const lane of this.all) lane.socket.end()
  }

  private async connect({ port, certificate }: Target): Promise<void> {
    const opened = Promise.withResolvers<void>()
    const lane: Lane = {
      socket: undefined as never,
      unsent: new Uint8Array(0),
      received: '',
      done: undefined,
    }
    lane.socket = await Bun.connect<Lane>({
      hostname: '127.0.0.1',
      port,
      tls: { ca: certificate, serverName: 'localhost' },
      data: lane,
      socket: {
        handshake: (_, authorized, error) => (authorized ? opened.resolve() : opened.reject(error)),
        data: (_, bytes) => this.receive(lane, bytes),
        drain: (socket) => {
          if (lane.unsent.length > 0) lane.unsent = lane.unsent.subarray(socket.write(lane.unsent))
        },
        close: () => {
          this.ended += 1
          const at = this.free.indexOf(lane)
          if (at >= 0) this.free.splice(at, 1)
          lane.done?.({ status: 0, body: '' })
          lane.done = undefined
        },
        error: (_, error) => opened.reject(error),
      },
    })
    await opened.promise
    this.all.push(lane)
    this.free.push(lane)
  }

  private receive(lane: Lane, bytes: Buffer): void {
    lane.received += bytes.toString('latin1')
    const head = lane.received.indexOf('\r\n\r\n')
    if (head < 0) return
    const length = /\r\ncontent-length: *(\d+)/i.exec(lane.received)
    if (length === null) throw new Error('an answer without a length')
    if (lane.received.length < head + 4 + Number(length[1])) return
    const status = Number(lane.received.slice(9, 12))
    const body = lane.received.slice(head + 4)
    lane.received = ''
    const { done } = lane
    lane.done = undefined
    this.free.push(lane)
    done?.({ status, body })
  }
}

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
