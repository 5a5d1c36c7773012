/**
 * Carries the requests that nodes pass on in order: sealed frames over one connection, each with all that gathered meanwhile
 * (cluster.md "Links").
 */

import { toHex, utf8 } from '../../protocol/bytes'
import { textOf } from '../edge/body'
import { LINK_STREAM_FILL_BYTES } from '../limits'
import { headerOf, type SealedLink } from './sealed_link'

/** Questions or answers, by number. */
type Message = readonly [number: number, content: object]

/**
 * One end of a connection. The keys are those of the newest link of the two nodes, so that a renewed proof interrupts nothing;
 * frames are numbered by the connection, so that they keep their order over renewals.
 */
export class Stream {
  private link: SealedLink | undefined
  private sent_frames = 0
  private taken_frames = 0
  private queue: string[] = []
  private due = false

  /** @param send of a frame; false ends the connection */
  constructor(
    private readonly sends: 'passes' | 'passed',
    private readonly linkOf: (id: string) => SealedLink | undefined,
    private readonly send: (frame: Uint8Array) => void,
  ) {}

  get sent(): number {
    return this.sent_frames
  }
  get taken(): number {
    return this.taken_frames
  }

  /** Frames are sealed for this link from now on. @throws Error for a link that another connection carries */
  use(link: SealedLink): void {
    link.carriedBy(this)
    // Pushed frames are for the node of the previous link.
    this.flush()
    this.link = link
  }

  /** Sends a frame without messages, by which the other end knows the link. */
  show(): void {
    this.sendFrame([])
  }

  /** Sent together with all other messages of this turn. */
  push(...message: Message): void {
    this.queue.push(JSON.stringify(message))
    if (this.due) return
    this.due = true
    setImmediate(() => this.flush())
  }

  /** @throws Error for a frame that is not the next one of this connection, or of no link that it may carry */
  take(frame: Uint8Array): { link: SealedLink; messages: Message[] } {
    const header = headerOf(frame)
    const link = header && this.linkOf(toHex(header.link))
    const opened = link?.open(this.sends === 'passes' ? 'passed' : 'passes', frame)
    if (link === undefined || opened?.number !== this.taken_frames + 1) throw new Error('not the next frame')
    link.carriedBy(this)
    this.taken_frames += 1
    return { link, messages: JSON.parse(textOf(opened.content)) as Message[] }
  }

  private flush(): void {
    this.due = false
    while (this.queue.length > 0) {
      let bytes = 0
      let count = 0
      while (count < this.queue.length && bytes < LINK_STREAM_FILL_BYTES) bytes += this.queue[count++]!.length
      this.sendFrame(this.queue.splice(0, count))
    }
  }

  private sendFrame(texts: readonly string[]): void {
    this.send(this.link!.seal(this.sends, ++this.sent_frames, utf8(`[${texts.join(',')}]`)))
  }
}
