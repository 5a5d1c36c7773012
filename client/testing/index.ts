/**
 * Collects the kit for tests of a trader's program, `tacit-client/testing`: a real venue behind a network that fails on demand.
 */
import { REFUSAL_BY_CODE, type RefusalCode } from '../../protocol/refusals'
import type { Transport } from '../api/venue_client'

/** `before`: never arrives; `after`: arrives, its answer is lost; a code: rejected on the way, as a front would. */
export type Fault = 'before' | 'after' | RefusalCode
const COMMANDS = /^\/(orders|withdrawals|notes\/reshape)/

export class FaultyTransport implements Transport {
  /** Faults of the next commands, first first. */
  readonly next: (Fault | undefined)[] = []
  /** Bodies of commands that arrived, in their order. */
  readonly arrived: string[] = []
  /** Whether reads are lost as well. */
  reads_lost = false
  sockets: WebSocket[] = []
  constructor(private readonly real: Transport) {}

  get base_url(): string {
    return this.real.base_url
  }
  async fetch(path: string, init: RequestInit = {}): Promise<Response> {
    const is_command = init.method !== 'GET' && COMMANDS.test(path)
    if (!is_command && this.reads_lost) throw lost()
    const fault = is_command ? this.next.shift() : undefined
    if (fault === 'before') throw lost()
    if (fault !== undefined && fault !== 'after') return refusal(fault)
    if (is_command) this.arrived.push(String(init.body))
    const answer = await this.real.fetch(path, init)
    if (fault === undefined) return answer
    await answer.text()
    throw lost()
  }
  webSocket(path: string): WebSocket {
    const socket = this.real.webSocket(path)
    this.sockets.push(socket)
    return socket
  }
  /** The network ends every stream. */
  cut(): void {
    for (const socket of this.sockets.splice(0)) socket.close()
  }
}

const lost = (): Error => new TypeError('the connection was closed')

function refusal(code: RefusalCode): Response {
  const { status, message } = REFUSAL_BY_CODE.get(code)!
  const problem = { type: `/swagger#${code}`, title: code, status, detail: message, message, code }
  return Response.json({ ...problem, applied: 'no', retry_after_ms: 5, request_id: 'x' }, { status })
}
