/** Holds the live bearer tokens of the journal: opaque, known only by their SHA-256. */

import { Refusal } from '../../protocol/refusals'
import type { Credential } from '../commands'
import { LIMITS } from '../limits'
import type { ClockPort } from '../ports'
import type { Session } from '../venue'

type EndReason = 'token_expired' | 'token_revoked'

/** A token is 32 random bytes in base64url without padding (43 characters). */
const TOKEN_BYTES = 32

export class Tokens {
  /**
   * By token id, in order of issue. That is the order of expiry but for tokens that their credential's expiry shortens:
   * these are rejected in time and removed with the ones before them.
   */
  private readonly live = new Map<string, Session>()
  /** Why a token ended, for the most recent ones; an older token is `token_invalid`. */
  private readonly end_reasons = new Map<string, EndReason>()
  private readonly by_credential = new Map<string, Set<string>>()
  private readonly listeners = new Map<string, Set<() => void>>()

  constructor(private readonly clock: ClockPort) {}

  /** Holds a journaled token of a credential. Revokes its oldest one beyond `credential_tokens_max`, as the journal does. */
  hold(
    { account_id, token_id }: Pick<Session, 'account_id' | 'token_id'>,
    { credential_id, kind: access }: Pick<Credential, 'credential_id' | 'kind'>,
    life_ms: number,
  ): void {
    const now_ms = this.clock.monotonicMs()
    this.expire(now_ms)
    const expires_ms = now_ms + life_ms
    this.live.set(token_id, { account_id, token_id, expires_ms, credential_id, access })
    const held = this.by_credential.get(credential_id) ?? new Set()
    this.by_credential.set(credential_id, held.add(token_id))
    if (held.size > LIMITS.credential_tokens_max) this.end(held.values().next().value!, 'token_revoked')
  }

  /** Throws `token_invalid`, `token_expired` or `token_revoked`. */
  authenticate(token: string): Session {
    const token_id = idOf(token)
    const session = this.live.get(token_id)
    if (session === undefined) throw new Refusal(this.end_reasons.get(token_id) ?? 'token_invalid')
    if (this.clock.monotonicMs() < session.expires_ms) return session
    this.end(token_id, 'token_expired')
    throw new Refusal('token_expired')
  }

  revoke(token_id: string): void {
    this.end(token_id, 'token_revoked')
  }

  /** Ends the tokens of one credential. */
  revokeAll(credential_id: string): void {
    for (const token_id of [...(this.by_credential.get(credential_id) ?? [])])
      this.end(token_id, 'token_revoked')
  }

  /** Calls `ended` once when the token ends, or in a microtask if it already has. Returns an unsubscribe function. */
  onEnded(token_id: string, ended: () => void): () => void {
    let heard = false
    const once = () => {
      if (!heard) ended()
      heard = true
    }
    if (!this.live.has(token_id)) queueMicrotask(once)
    else this.listeners.set(token_id, (this.listeners.get(token_id) ?? new Set()).add(once))
    return () => {
      heard = true
      const waiting = this.listeners.get(token_id)
      waiting?.delete(once)
      if (waiting?.size === 0) this.listeners.delete(token_id)
    }
  }

  close(): void {
    this.live.clear()
  }

  /** Ends expired tokens from the oldest on; a socket looks at the expiry of its token by itself. */
  private expire(now_ms: number): void {
    for (const { token_id, expires_ms } of this.live.values()) {
      if (expires_ms > now_ms) return
      this.end(token_id, 'token_expired')
    }
  }

  private end(token_id: string, reason: EndReason): void {
    const session = this.live.get(token_id)
    if (session === undefined) return
    this.live.delete(token_id)
    const held = this.by_credential.get(session.credential_id)!
    held.delete(token_id)
    if (held.size === 0) this.by_credential.delete(session.credential_id)
    this.end_reasons.set(token_id, reason)
    if (this.end_reasons.size > LIMITS.tokens_dead_max)
      this.end_reasons.delete(this.end_reasons.keys().next().value!)
    const waiting = this.listeners.get(token_id)
    this.listeners.delete(token_id)
    for (const ended of waiting ?? []) ended()
  }
}

/** A token that nothing knows yet. */
export function newToken(): { token: string; token_id: string } {
  const token = crypto.getRandomValues(Buffer.alloc(TOKEN_BYTES)).toString('base64url')
  return { token, token_id: idOf(token) }
}

function idOf(token: string): string {
  return Bun.SHA256.hash(token, 'hex')
}
