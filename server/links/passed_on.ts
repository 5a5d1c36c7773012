/** Answers, on the node that leads, the requests that the others pass on over their streams; a node without one is lost. */

import type { CommandBody } from '../../engine/commands'
import type { NodeVenue } from '../../engine/venue'
import { toHex } from '../../protocol/bytes'
import { Refusal } from '../../protocol/refusals'
import { COST } from '../edge/rate'
import {
  LINK_CALL_MS,
  LINK_FRAME_LATE_MS,
  LINK_PASSED_MAX,
  LINK_SILENT_MS,
  LINK_STREAM_BUFFER_BYTES,
  LINK_STREAMS_LOOK_MS,
  LINK_STREAMS_MAX,
  SOCKETS_MAX,
} from '../limits'
import type { Transport } from '../sockets/outbox'
import type { SocketData } from '../sockets/upgrade'
import type { LinkAnswers } from './answer_links'
import { parseSockets, passedOf, refusedOf } from './questions'
import type { SealedLink } from './sealed_link'
import { Stream } from './stream'

/** Close code of a protocol error. */
const PROTOCOL = 1002

/** Tokens that a command takes, as on a node that receives it from its client. */
function costOf(command: CommandBody): number {
  switch (command.kind) {
    case 'place':
    case 'modify':
    case 'withdraw':
    case 'reshape':
      return COST[command.kind]
    case 'cancel_all':
      return COST.cancel * command.items.length
    case 'cancel':
    case 'dead_man':
    case 'arm_disconnect':
    case 'credential':
    case 'rebind':
      return COST.cancel
    default:
      return 0
  }
}

export class PassedOn {
  private readonly open = new Set<Carried>()
  private readonly timer: ReturnType<typeof setInterval>

  constructor(
    private readonly answers: LinkAnswers,
    /** @throws Refusal `lease_lost` on a node that follows */
    private readonly venue: () => NodeVenue,
  ) {
    this.timer = setInterval(() => this.look(), LINK_STREAMS_LOOK_MS)
    this.timer.unref()
  }

  /** For a request for a connection, which counts once it is open. @throws Refusal `socket_limit` */
  socket(): SocketData {
    if (this.open.size >= LINK_STREAMS_MAX) throw new Refusal('socket_limit')
    const { carried } = this.answers
    const one = new Carried(this.answers, this.venue, {
      came: (node) => void carried.set(node, (carried.get(node) ?? 0) + 1),
      ended: (node, alive_ms) => {
        this.open.delete(one)
        if (node !== undefined) this.went(node, alive_ms)
      },
    })
    return {
      opened: (transport) => {
        this.open.add(one)
        one.opened(transport)
      },
      message: (message) => one.message(message),
      control: () => undefined,
      drained: () => undefined,
      closed: () => one.end(),
    }
  }

  stop(): void {
    clearInterval(this.timer)
  }

  private look(): void {
    for (const one of this.open) {
      if (one.isLost()) one.end()
      else one.expire()
    }
  }

  private went(node: string, alive_ms: number): void {
    const { carried } = this.answers
    const left = carried.get(node)! - 1
    if (left > 0) carried.set(node, left)
    else carried.delete(node)
    if (left === 0) this.venue().nodeLost(node, alive_ms)
  }
}

type Ends = {
  /** The node has said which of its sockets are open. */
  came(node: string): void
  /**
   * @param node that came
   * @param alive_ms time of the newest proof that it lived
   */
  ended(node: string | undefined, alive_ms: number): void
}

/** One connection. It lives as long as the node proves that it does, not as long as the host keeps it open. */
class Carried {
  private readonly stream: Stream
  /** Newest time at which the node lived. */
  private alive_ms: number
  private transport: Transport | undefined
  private node: string | undefined
  private link: SealedLink | undefined
  /** Numbers of the requests that wait for an answer, and the time until which they do. */
  private readonly waiting = new Map<number, number>()
  /** Open sockets of the node, until all are known. */
  private sockets: string[] | undefined = []
  /** A frame that the node said it sent, and the time by which it must have come. */
  private due: { number: number; by_ms: number } | undefined
  private is_over = false

  constructor(
    private readonly answers: LinkAnswers,
    private readonly venue: () => NodeVenue,
    private readonly ends: Ends,
  ) {
    this.alive_ms = answers.nowMs()
    this.stream = new Stream(
      'passed',
      (id) => answers.carrying(id)?.link,
      (frame) => {
        if (this.is_over) return
        const is_slow = (this.transport?.getBufferedAmount() ?? 0) > LINK_STREAM_BUFFER_BYTES
        if (is_slow || this.transport?.sendBytes(frame) === 0) this.end()
      },
    )
  }

  opened(transport: Transport): void {
    this.transport = transport
  }

  message(message: string | Uint8Array): void {
    if (this.is_over) return
    try {
      if (typeof message === 'string') throw new Error('frames are bytes')
      this.take(message)
    } catch {
      this.end()
    }
  }

  /** The peer may answer no close frame, and the runtime would wait for it. */
  end(): void {
    if (this.is_over) return
    this.is_over = true
    this.transport?.close(PROTOCOL, 'frame')
    this.transport?.terminate()
    this.lives()
    this.ends.ended(this.sockets === undefined ? this.node : undefined, this.alive_ms)
  }

  isLost(): boolean {
    const { link, stream } = this
    const now_ms = this.answers.nowMs()
    const known = this.lives()
    if (link !== undefined && known === undefined) return true
    if (now_ms - this.alive_ms >= LINK_SILENT_MS) return true
    const { number, by_ms } = this.due ?? { number: 0, by_ms: 0 }
    if (number > stream.taken) return now_ms >= by_ms
    const sent = known?.frames ?? 0
    this.due = sent > stream.taken ? { number: sent, by_ms: now_ms + LINK_FRAME_LATE_MS } : undefined
    return false
  }

  /** Its newest link, by which it shows that it lives. */
  private lives(): ReturnType<LinkAnswers['known']> {
    const known = this.link && this.answers.carrying(toHex(this.link.id))
    if (known !== undefined) this.alive_ms = known.alive_ms
    return known
  }

  private take(frame: Uint8Array): void {
    const { link, messages } = this.stream.take(frame)
    const sender = this.answers.known(toHex(link.id))?.node ?? ''
    // An answer is sealed for the newest link here: with two nodes on one connection it would be of the other.
    if (sender === '' || (this.node ?? sender) !== sender) throw new Error('a connection is of one node')
    this.node = sender
    if (this.link !== link) {
      this.stream.use(link)
      this.answers.carry(toHex(link.id))
    }
    this.link = link
    for (const [number, content] of messages) {
      if (this.waiting.size >= LINK_PASSED_MAX) throw new Error('more than a node passes on')
      this.waiting.set(number, this.answers.nowMs() + LINK_CALL_MS)
      const answering = this.sockets === undefined ? this.answer(content) : this.list(content, this.sockets)
      void answering.then(
        (answer) => this.give(number, answer),
        () => this.end(),
      )
    }
  }

  private give(number: number, answer: object): void {
    if (this.waiting.delete(number)) this.stream.push(number, answer)
  }

  /** The node has given these up, too, or soon will, and counts them until they are answered. */
  expire(): void {
    const now_ms = this.answers.nowMs()
    for (const [number, until_ms] of this.waiting) {
      if (until_ms > now_ms) return
      this.give(number, refusedOf(new Refusal('outcome_unknown')))
    }
  }

  /** The node is back once all of its open sockets are known. */
  private async list(content: object, sockets: string[]): Promise<object> {
    const { open, more } = parseSockets(content)
    sockets.push(...open)
    if (sockets.length > SOCKETS_MAX) throw new Error('more sockets than a node has')
    if (more) return {}
    this.sockets = undefined
    this.ends.came(this.node!)
    return { unarmed: await this.venue().nodeBack(this.node!, new Set(sockets)) }
  }

  private async answer(content: object): Promise<object> {
    try {
      const passed = passedOf(content)
      if (passed.kind === 'leaves' && passed.node !== this.node) throw new Refusal('frame_invalid')
      return await this.venue().passed(passed, costOf, () => this.is_over)
    } catch (error) {
      return refusedOf(error)
    }
  }
}
