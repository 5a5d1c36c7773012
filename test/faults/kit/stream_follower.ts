/** Follows one stream of an account raw: every event must come once and in order, over as many sockets as it takes. */
import type { VenueClient } from '../../../client/api/venue_client'
import type { AccountEvent } from '../../../protocol/wire/trading'
import type { Random } from './random'

type StreamName = 'trading' | 'orders' | 'fills'
type Frame = { type: string; seq?: number; seq_last?: number } & Record<string, unknown>
const WAIT_MS_MAX = 110_000
/** How long a socket that comes and goes stays. */
const STAY_MS_MAX = 300

export class StreamFollower {
  readonly events: AccountEvent[] = []
  /** What must never come: repeats, gaps the venue admits, frames out of order. */
  readonly faults: string[] = []
  /** How often it left by itself. */
  left = 0
  private readonly waiters = new Set<() => void>()
  private socket: WebSocket | undefined

  constructor(
    private readonly client: VenueClient,
    readonly stream: StreamName,
    private readonly onEvent: (event: AccountEvent) => void = () => {},
  ) {}

  get seq(): number {
    return this.events.at(-1)?.seq ?? 0
  }

  /** Opens a socket that resumes behind the last event; resolves with its greeting. */
  async connect(): Promise<Frame> {
    const token = await this.client.token()
    const socket = this.client.transport.webSocket(`/ws/${this.stream}?token=${token}&after=${this.seq}`)
    this.socket = socket
    const hello = Promise.withResolvers<Frame>()
    socket.onmessage = ({ data }) => {
      // A follower that left ignores frames under way.
      if (this.socket !== socket) return
      const frame = JSON.parse(String(data)) as Frame
      if (frame.type === 'hello') hello.resolve(frame)
      else this.receive(frame)
    }
    socket.onclose = ({ code }) => hello.reject(new Error(`/ws/${this.stream} closed with ${code}`))
    return hello.promise
  }

  /** Disconnects at random moments and reconnects at once, until a socket does not open. */
  async comeAndGo(random: Random, goes_on: () => boolean): Promise<void> {
    while (goes_on()) {
      await Bun.sleep(random.integer(STAY_MS_MAX))
      if (!goes_on()) return
      this.close()
      this.left++
      try {
        await this.connect()
      } catch {
        return
      }
    }
  }

  private receive(frame: Frame): void {
    if (frame.type === 'gap') this.faults.push(`gap ${frame['seq_from']} to ${frame['seq_to']}`)
    if (frame.type !== 'event') return
    const { type: _, ...event } = frame as unknown as AccountEvent & { type: string }
    const ok = this.stream === 'trading' ? event.seq === this.seq + 1 : event.seq > this.seq
    if (!ok) this.faults.push(`seq ${event.seq} after ${this.seq}`)
    this.events.push(event)
    this.onEvent(event)
    for (const look of this.waiters) look()
  }

  /** Resolves once the events satisfy `holds`, looking again after each. */
  until(what: string, holds: () => boolean): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const look = (): void => {
      if (holds()) resolve()
    }
    const late = setTimeout(() => reject(new Error(`waited in vain for ${what}`)), WAIT_MS_MAX)
    this.waiters.add(look)
    look()
    return promise.finally(() => {
      clearTimeout(late)
      this.waiters.delete(look)
    })
  }

  close(): void {
    const { socket } = this
    this.socket = undefined
    socket?.close()
  }
}
