/** A venue whose sockets a test opens one by one; venue and sockets end with the test. */

import { afterEach } from 'bun:test'
import { type Harness, openHarness } from './harness'

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
