/** Checks the signatures of client commands: on the spot, or on a thread of its own where the machine has a core for it. */
import { verifySignature } from '../../protocol/ed25519'
import type { Claim } from './signed'

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
