/** Verifies signatures of client commands: inline, or on a worker thread where the machine has a core for it. */
import { verifySignature } from '../../protocol/ed25519'
import { Refusal } from '../../protocol/refusals'
import { LIMITS } from '../limits'
import { encodeClaims } from './claim_bytes'
import type { Claim } from './context'

// Checks the signatures of client commands: on the spot, or on a thread of its own where the machine has a core for it.

export interface Signatures {
  /**
   * Whether every claim holds (protocol.md "Signature rule"). A thread answers in the order of the calls, and a call
   * without claims when all before it are answered. Throws `matching_unavailable` when too many wait, never without claims.
   */
  hold(claims: readonly Claim[]): boolean | Promise<boolean>
  /** What still waits is refused. */
  close(): void
}

export const SIGNATURES_INLINE: Signatures = {
  hold: (claims) =>
    claims.every(({ signature, body, trading_key }) => verifySignature(signature, body, trading_key)),
  close() {},
}

// Owns the way to the signature thread and back: claims of one turn together, few messages at a time, answers in order.

/** Claims one message takes, unless one command has more: enough to pay for the message, answered within a millisecond. */
const MESSAGE_CLAIMS = 16
/** The thread works on one message while the next one is on its way. */
const MESSAGES_AHEAD = 2
/** So few are checked on the spot while the thread has nothing: to wake it and be woken takes longer than they do. */
const CLAIMS_HERE = 3

type Waiting = {
  claims: readonly Claim[]
  resolve: (held: boolean) => void
  reject: (reason: Error) => void
}

export class SignatureThread implements Signatures {
  private readonly worker = new Worker(new URL('./signature_worker.ts', import.meta.url))
  private readonly sent: Waiting[][] = []
  private waiting: Waiting[] = []
  private armed = false
  private closed: Error | undefined

  /** @param fatal the thread failed: what it was asked will never be answered, so the process must end. */
  constructor(fatal: (error: Error) => void) {
    this.worker.onmessage = ({ data }: MessageEvent<Uint8Array>) => this.answer(data)
    this.worker.onerror = ({ message }) => {
      this.end(new Refusal('internal'))
      fatal(new Error(`the signature thread failed: ${message}`))
    }
  }

  hold(claims: readonly Claim[]): Promise<boolean> {
    if (this.closed !== undefined) return Promise.reject(this.closed)
    // A call without claims is the venue's own (a socket went): it only waits for its turn and is never turned away.
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
    if (this.sent.length === 0 && this.areFew()) this.checkHere()
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
      if (claims > CLAIMS_HERE) return false
    }
    return true
  }

  private checkHere(): void {
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
