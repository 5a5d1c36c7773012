/** The connection on which one node passes requests on to another: `WebSocket` of the product's own links. */
import type { SocketData } from '../../../server/sockets/upgrade'
import { type Context, inVenue, type SimulatedTime } from '../simulated_time'
import { type Listening, listening } from './simulated_listen'

type Way = 'out' | 'back'
let time: SimulatedTime
let isLost: (host: string, from: Context | undefined) => boolean
const open = new Set<LinkSocket>()

/** Both ends; frames keep their order each way. */
class LinkSocket {
  onopen?: () => void
  onmessage?: (message: { data: unknown }) => void
  onclose?: () => void
  onerror?: () => void
  binaryType = 'arraybuffer'
  readonly bufferedAmount = 0
  private readonly own = time.current
  private at: Listening | undefined
  private data: SocketData | undefined
  private over = false
  private readonly last_ms = { out: 0, back: 0 }

  constructor(url: string) {
    const { host, pathname } = new URL(url)
    open.add(this)
    time.at(this.way('out'), async () => {
      this.at = listening.get(host)
      if (this.at?.life.alive !== true || isLost(host, this.own)) return this.cut()
      const request = new Request(`https://${host}${pathname}`, { headers: { host, upgrade: 'websocket' } })
      const upgrade = (_: Request, { data }: { data: SocketData }) => {
        this.opened(data)
        return true
      }
      const { app, life } = this.at
      await time.inside(inVenue(life), () => app.fetch(request, { upgrade }))
      if (this.data === undefined) this.cut()
    })
  }
  private way(way: Way): number {
    const at_ms = Math.max(this.last_ms[way], time.now_ms + 1 + time.random.below(12))
    this.last_ms[way] = at_ms
    return at_ms - time.now_ms
  }
  private opened(data: SocketData): void {
    this.data = data
    this.back(() => this.onopen?.())
    const send = (content: unknown, length: number) => {
      if (!this.over) this.back(() => this.onmessage?.({ data: content }))
      return length
    }
    data.opened({
      send: (text) => send(text, text.length),
      sendBytes: (bytes) => send(bytes.slice().buffer, bytes.length),
      getBufferedAmount: () => 0,
      cork: (sends) => sends(),
      close: () => this.cut(),
      terminate: () => this.cut(),
    })
  }
  private back(happen: () => void): void {
    time.at(this.way('back'), happen, this.own)
  }
  send(bytes: Uint8Array): void {
    const [copy, to] = [bytes.slice(), this.at]
    if (this.over || to === undefined) return
    time.at(this.way('out'), () => this.over || this.data?.message(copy), inVenue(to.life))
  }
  close(): void {
    this.cut()
  }
  cut(): void {
    if (this.over) return
    this.over = true
    open.delete(this)
    this.back(() => this.onclose?.())
    if (this.at !== undefined) time.at(1, () => this.data?.closed(1006), inVenue(this.at.life))
  }
  isOf(of: Context['life']): boolean {
    return this.own?.life.isOf(of) === true || this.at?.life === of
  }
}

/** @returns the function that ends the connections of a process that ended, so that the others learn it */
export function linkSockets(of: SimulatedTime, lost: typeof isLost): (life: Context['life']) => void {
  time = of
  isLost = lost
  Object.defineProperty(globalThis, 'WebSocket', { value: LinkSocket, configurable: true, writable: true })
  return (life) => {
    for (const one of [...open]) if (one.isOf(life)) one.cut()
  }
}
