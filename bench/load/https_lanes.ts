/** Keeps HTTP/1.1 connections over TLS, one request at a time each: a client with minimal cost. */
import type { Socket } from 'bun'

export type Target = { port: number; certificate: string }
export type Answered = { status: number; body: string }

type Lane = {
  socket: Socket<Lane>
  /** What the socket has not taken yet: on a loaded machine its buffer is full at times. */
  unsent: Uint8Array
  received: string
  done: ((answer: Answered) => void) | undefined
}

export class HttpsLanes {
  private readonly free: Lane[] = []
  private readonly all: Lane[] = []

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
        close() {
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
