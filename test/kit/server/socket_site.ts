/** A venue whose sockets a test opens one by one, and one whose account stream it plays by hand. */

import { afterEach } from 'bun:test'
import type { EventSink, OwnTexts, Session, Subscription, Venue } from '../../../engine/venue'
import { Refusal } from '../../../protocol/refusals'
import type { AccountEvent, Order } from '../../../protocol/wire/trading'
import { STATUS } from '../../routes/answers'
import { ORDER } from '../../routes/bodies'
import { type Harness, only, openHarness } from './harness'

/** An account's stream that the test plays by hand. */
export class Stream {
  sink!: EventSink
  gap!: (from: number, to: number) => void
  after: number | undefined
  renewed: Session[] = []
  closed = 0
  seq_first = 1
  seq_last = 0
  subscription(): Subscription {
    return {
      seq_first: this.seq_first,
      seq_last: this.seq_last,
      seqNow: () => this.seq_last,
      renew: (renewed) => void this.renewed.push(renewed),
      close: () => {
        this.closed += 1
      },
    }
  }
  tell(event: AccountEvent): void {
    this.sink.events([{ event, text: JSON.stringify(event) }])
  }
  venue(more: Partial<Venue> = {}): Partial<Venue> {
    return {
      status: () => STATUS,
      time: () => ({ slot: 309, unix_ms: 1, slot_ms: 400 }),
      subscribe: async (_session, after, sink, gap) => {
        if (after !== undefined && after > this.seq_last) throw new Refusal('after_invalid')
        this.after = after
        this.sink = sink
        this.gap = gap
        return this.subscription()
      },
      ...snapshotOf(() => ({ seq: this.seq_last, orders: [ORDER] })),
      ...more,
    }
  }
}

/** A venue that gives this snapshot. */
export function snapshotOf(snapshot: () => { seq: number; orders: Order[] }): Partial<Venue> {
  return {
    own: only<OwnTexts>('venue.own', {
      async snapshot() {
        const { seq, orders } = snapshot()
        return { seq, orders: JSON.stringify(orders) }
      },
    }),
  }
}

// biome-ignore lint/suspicious/noExplicitAny: tests look into frames of many shapes
type Frame = any
type Peer = {
  /** The next frame; rejects when the socket closed instead. */
  next(): Promise<Frame>
  send(frame: unknown): void
  sendRaw(message: string | Uint8Array): void
  /** Resolves with the close code. */
  closed(): Promise<number>
  close(): void
}

async function openPeer(http_url: string, path: string, headers: Record<string, string> = {}): Promise<Peer> {
  const socket = new WebSocket(http_url.replace(/^http/, 'ws') + path, { headers } as never)
  const frames: Frame[] = []
  const waiting: { resolve: (frame: Frame) => void; reject: (error: Error) => void }[] = []
  const closed = Promise.withResolvers<number>()
  let over: Error | undefined
  socket.onmessage = ({ data }) => {
    const frame = JSON.parse(String(data))
    const first = waiting.shift()
    if (first === undefined) frames.push(frame)
    else first.resolve(frame)
  }
  socket.onclose = ({ code }) => {
    over = new Error(`closed with ${code}`)
    for (const { reject } of waiting.splice(0)) reject(over)
    closed.resolve(code)
  }
  await new Promise<void>((resolve, reject) => {
    socket.onopen = () => resolve()
    socket.onerror = () => reject(new Error('the upgrade was refused'))
  })
  return {
    next: () =>
      new Promise((resolve, reject) => {
        if (frames.length > 0) resolve(frames.shift())
        else if (over !== undefined) reject(over)
        else waiting.push({ resolve, reject })
      }),
    send: (frame) => socket.send(JSON.stringify(frame)),
    sendRaw: (message) => socket.send(message as string),
    closed: () => closed.promise,
    close: () => socket.close(),
  }
}

type SocketSite = {
  serve(...options: Parameters<typeof openHarness>): Harness
  connect(path: string, headers?: Record<string, string>): Promise<Peer>
}

/** Called once by a file of tests. */
export function socketSite(): SocketSite {
  let harness: Harness
  let peers: Peer[] = []
  afterEach(async () => {
    for (const peer of peers) peer.close()
    peers = []
    await harness.stop()
  })
  return {
    serve(...options) {
      harness = openHarness(...options)
      return harness
    },
    async connect(path, headers) {
      const peer = await openPeer(harness.listener.url, path, headers)
      peers.push(peer)
      return peer
    },
  }
}
