/** Carries what nodes pass on in order: sealed frames over one connection, each with all that came meanwhile (cluster.md "Links"). */

import { toHex, utf8 } from '../../protocol/bytes'
import { textOf } from '../edge/body'
import { LINK_STREAM_FILL_BYTES } from '../limits'
import { headerOf, type SealedLink } from './sealed_link'

/** By number, what is asked or answered. */
type Message = readonly [number: number, content: object]

/**
 * One end of a connection. A frame that is not the next one of an open link ends it. The keys are those of the newest link of
 * the two nodes, so that a renewed proof interrupts nothing.
 */
export class Stream {
  private link: SealedLink | undefined
  private queue: string[] = []
  private due = false

  /** @param send of a frame; false ends the connection */
  constructor(
    private readonly sends: 'passes' | 'passed',
    private readonly linkOf: (id: string) => SealedLink | undefined,
    private readonly send: (frame: Uint8Array) => void,
  ) {}

  /** Frames are sealed for this link from now on. */
  use(link: SealedLink): void {
    this.link = link
  }

  /** Sent with everything else of this turn. */
  push(...message: Message): void {
    this.queue.push(JSON.stringify(message))
    if (this.due) return
    this.due = true
    setImmediate(() => this.flush())
  }

  /** @throws for a frame that is not the next one of an open link */
  take(frame: Uint8Array): { link: SealedLink; messages: Message[] } {
    const header = headerOf(frame)
    const link = header && this.linkOf(toHex(header.link))
    const content = link?.takeNext(this.sends === 'passes' ? 'passed' : 'passes', frame)
    if (link === undefined || content === undefined) throw new Error('not the next frame of a link')
    return { link, messages: JSON.parse(textOf(content)) as Message[] }
  }

  private flush(): void {
    this.due = false
    while (this.queue.length > 0 && this.link !== undefined) {
      let bytes = 0
      let count = 0
      while (count < this.queue.length && bytes < LINK_STREAM_FILL_BYTES) bytes += this.queue[count++]!.length
      const texts = this.queue.splice(0, count)
      this.send(this.link.sealNext(this.sends, utf8(`[${texts.join(',')}]`)))
    }
  }
}
