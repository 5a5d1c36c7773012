/** Verifies signatures of client commands: inline, or on a worker thread where the machine has a core for it. */
import { verifySignature } from '../../protocol/ed25519'
import { Refusal } from '../../protocol/refusals'
import { LIMITS } from '../limits'
import { encodeClaims } from './claim_bytes'
import type { Claim } from './context'

export interface Signatures {
  /**
   * Whether every claim verifies (protocol.md "Signature rule"). A thread answers in the order of the calls, so a call
   * without claims resolves after all calls before it; such a call is never refused.
   * @throws Refusal `matching_unavailable` when too many calls wait
   */
  hold(claims: readonly Claim[]): boolean | Promise<boolean>
  /** Pending calls reject with `matching_unavailable`. */
  close(): void
}

export const SIGNATURES_INLINE: Signatures = {
  hold: (claims) =>
    claims.every(({ signature, body, trading_key }) => verifySignature(signature, body, trading_key)),
  close() {},
}

/** Claims of one message, unless one command has more: amortizes the message and is verified within a millisecond. */
const MESSAGE_CLAIMS = 16
/** Messages in flight: the thread verifies one while the next is queued. */
const MESSAGES_AHEAD = 2
/** Up to this many claims are verified inline while the thread is idle: the round trip costs more. */
const INLINE_CLAIMS = 3

type Waiting = {
  claims: readonly Claim[]
  resolve: (held: boolean) => void
  reject: (reason: Error) => void
}

/** Sends the claims of one turn of the event loop together and answers in order. */
export class SignatureThread implements Signatures {
  private readonly worker = new Worker(new URL('./signature_worker.ts', import.meta.url))
  private readonly sent: Waiting[][] = []
  private waiting: Waiting[] = []
  private armed = false
  private closed: Error | undefined

  /** @param fatal called when the thread failed: its pending calls cannot be answered, so the process must exit */
  constructor(fatal: (error: Error) => void) {
    this.worker.onmessage = ({ data }: MessageEvent<Uint8Array>) => this.answer(data)
    this.worker.onerror = ({ message }) => {
      this.end(new Refusal('internal'))
      fatal(new Error(`the signature thread failed: ${message}`))
    }
  }

  hold(claims: readonly Claim[]): Promise<boolean> {
    if (this.closed !== undefined) return Promise.reject(this.closed)
    // A call without claims is the venue's own (a socket closed): it only waits for its turn.
    if (claims.length > 0 && this.waiting.length >= LIMITS.signatures_waiting_max) {
      throw new Refusal('matching_unavailable', { subsystem: 'matching' })
    }
    const { promise, resolve, reject } = Promise.withResolvers<boolean>()
    this.waiting.push({ claims, resolve, reject })
    if (!this.armed) {
      this.armed = true
      // The requests of this turn of the event loop go out together.
      setImmediate(() => this.send())
    }
    return promise
  }

  close(): void {
    this.end(new Refusal('matching_unavailable', { subsystem: 'matching' }))
  }

  private send(): void {
    this.armed = false
    if (this.sent.length === 0 && this.areFew()) this.verifyInline()
    while (this.waiting.length > 0 && this.sent.length < MESSAGES_AHEAD) {
      const message = this.takeMessage()
      const bytes = encodeClaims(message.flatMap(({ claims }) => claims))
      this.sent.push(message)
      this.worker.postMessage(bytes, [bytes.buffer])
    }
  }

  private areFew(): boolean {
    let claims = 0
    for (const one of this.waiting) {
      claims += one.claims.length
      if (claims > INLINE_CLAIMS) return false
    }
    return true
  }

  private verifyInline(): void {
    for (const { claims, resolve } of this.waiting.splice(0))
      resolve(SIGNATURES_INLINE.hold(claims) as boolean)
  }

  private takeMessage(): Waiting[] {
    let claims = 0
    let count = 0
    for (const one of this.waiting) {
      claims += one.claims.length
      if (count > 0 && claims > MESSAGE_CLAIMS) break
      count++
    }
    return this.waiting.splice(0, count)
  }

  private answer(verdicts: Uint8Array): void {
    let at = 0
    for (const { claims, resolve } of this.sent.shift() ?? []) {
      let held = true
      for (const end = at + claims.length; at < end; at++) held &&= verdicts[at] === 1
      resolve(held)
    }
    this.send()
  }

  private end(reason: Error): void {
    if (this.closed !== undefined) return
    this.closed = reason
    this.worker.terminate()
    for (const { reject } of [...this.sent.flat(), ...this.waiting.splice(0)]) reject(reason)
  }
}
