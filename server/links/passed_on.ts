/** Answers, on the node that leads, what the others pass on over their streams; a node without one is lost. */

import type { CommandBody } from '../../engine/commands'
import type { NodeVenue } from '../../engine/venue'
import { Refusal } from '../../protocol/refusals'
import { COST } from '../edge/rate'
import { LINK_PASSED_MAX, LINK_STREAM_BUFFER_BYTES, LINK_STREAM_SHOW_MS, LINK_STREAMS_MAX } from '../limits'
import type { Transport } from '../sockets/outbox'
import type { SocketData } from '../sockets/upgrade'
import type { LinkAnswers } from './answer_links'
import { passedOf, refusedOf } from './questions'
import { Stream } from './stream'

/** Close code of a protocol error. */
const PROTOCOL = 1002

/** Tokens that a command takes, as on a node that takes it itself. */
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
  private open = 0
  /** Streams by node. */
  private readonly nodes = new Map<string, number>()

  constructor(
    private readonly answers: LinkAnswers,
    /** @throws Refusal `lease_lost` on a node that follows */
    private readonly venue: () => NodeVenue,
  ) {}

  /** Of a request for a connection, which counts once it is one. @throws Refusal `socket_limit` */
  socket(): SocketData {
    if (this.open >= LINK_STREAMS_MAX) throw new Refusal('socket_limit')
    let transport: Transport | undefined
    let node: string | undefined
    let waiting = 0
    const end = () => transport?.close(PROTOCOL, 'frame')
    const stream = new Stream(
      'passed',
      (id) => this.answers.openLink(id)?.link,
      (frame) => {
        const is_slow = (transport?.getBufferedAmount() ?? 0) > LINK_STREAM_BUFFER_BYTES
        if (is_slow || transport?.sendBytes(frame) === 0) end()
      },
    )
    let shown: ReturnType<typeof setTimeout> | undefined
    const answer = async (content: object): Promise<object> => {
      try {
        return await this.venue().passed(passedOf(content), costOf)
      } catch (error) {
        return refusedOf(error)
      }
    }
    const take = (frame: Uint8Array) => {
      const { link, messages } = stream.take(frame)
      const sender = this.answers.nodeOf(link)
      // An answer is sealed for the newest link here: with two nodes on one connection it would be of the other.
      if (sender === '' || (node ?? sender) !== sender) throw new Error('a connection is of one node')
      stream.use(link)
      if (node === undefined) {
        clearTimeout(shown)
        node = sender
        this.came(node)
      }
      for (const [number, content] of messages) {
        if (++waiting > LINK_PASSED_MAX) throw new Error('more than a node passes on')
        void answer(content).then((answered) => {
          waiting -= 1
          stream.push(number, answered)
        })
      }
    }
    return {
      opened: (opened) => {
        transport = opened
        this.open += 1
        shown = setTimeout(end, LINK_STREAM_SHOW_MS)
      },
      message(message) {
        try {
          if (typeof message === 'string') throw new Error('frames are bytes')
          take(message)
        } catch {
          end()
        }
      },
      control: () => undefined,
      drained: () => undefined,
      closed: () => {
        clearTimeout(shown)
        this.open -= 1
        if (node !== undefined) this.went(node)
      },
    }
  }

  /** That have a stream. */
  count(): number {
    return this.nodes.size
  }

  private came(node: string): void {
    this.nodes.set(node, (this.nodes.get(node) ?? 0) + 1)
    this.venue().nodeBack(node)
  }

  private went(node: string): void {
    const left = this.nodes.get(node)! - 1
    if (left > 0) this.nodes.set(node, left)
    else this.nodes.delete(node)
    if (left === 0) this.venue().nodeLost(node)
  }
}
