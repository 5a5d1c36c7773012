/** A socket between a simulated client and the venue. */
import type { SocketData } from '../../server/sockets/upgrade'
import type { Life } from './awaits'
import { type Context, inVenue, type SimulatedTime } from './simulated_time'

export type FrameFault = 'lost' | 'twice' | 'gap' | 'garbage' | 'cut' | 'ends'

/** Both ends of a socket; frames keep their order. */
export class SimulatedSocket extends EventTarget {
  onopen: (() => void) | undefined
  onmessage: ((event: { data: unknown }) => void) | undefined
  onclose: (() => void) | undefined
  over: () => void = () => undefined
  killed: (context: Context) => void = () => undefined
  is_open = false
  closed = false
  private data: SocketData | undefined
  private last_ms = 0
  private venue_life: Life | undefined
  private readonly context: Context | undefined
  constructor(
    private readonly time: SimulatedTime,
    private readonly latency: () => number,
    private readonly fault: () => FrameFault | undefined,
  ) {
    super()
    this.context = time.current
    this.addEventListener('close', () => this.onclose?.())
  }
  private later(run: () => void): void {
    const { now_ms } = this.time
    this.last_ms = Math.max(this.last_ms, now_ms + this.latency())
    this.time.at(this.last_ms - now_ms, run, this.context)
  }

  /** The venue's side. */
  opened(data: SocketData, life: Life): boolean {
    this.is_open = true
    this.venue_life = life
    this.data = data
    this.later(() => this.onopen?.())
    data.opened({
      send: (text) => {
        this.show(text)
        return text.length
      },
      sendBytes: (bytes) => bytes.length,
      getBufferedAmount: () => 0,
      cork: (send) => send(),
      close: () => this.cut(),
      terminate: () => this.cut(),
    })
    return true
  }
  private show(text: string): void {
    if (this.context?.life.alive === false) this.cut()
    if (this.closed) return
    const is_event = text.startsWith('{"type":"event"')
    const fault = is_event ? this.fault() : undefined
    if (fault === 'cut') this.cut()
    if (fault === 'cut' || fault === 'lost') return
    const { seq } = is_event ? JSON.parse(text) : { seq: 0 }
    const gap = JSON.stringify({ type: 'gap', seq_from: seq, seq_to: seq })
    const shown = fault === 'gap' ? gap : fault === 'garbage' ? text.slice(1) : text
    this.later(() => this.onmessage?.({ data: shown }))
    if (fault === 'twice') this.later(() => this.onmessage?.({ data: shown }))
    const { context } = this
    if (fault === 'ends' && context) this.later(() => void this.time.at(0, () => this.killed(context)))
  }
  /** The client's side. */
  send(text: string): void {
    const { venue_life } = this
    if (venue_life === undefined || this.closed) return
    this.time.at(this.latency(), () => this.closed || this.data?.message(text), inVenue(venue_life))
  }
  /** The network ends it. */
  cut(): void {
    if (this.closed) return
    this.closed = true
    this.is_open = false
    this.over()
    const { data, venue_life } = this
    this.data = undefined
    this.later(() => this.dispatchEvent(new Event('close')))
    if (venue_life === undefined) return
    this.time.at(0, () => data?.closed(1006), inVenue(venue_life))
  }
  close(): void {
    this.cut()
  }
}
