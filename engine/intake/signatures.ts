/** Verifies the signatures of client commands: with compiled code where the machine can run it, else with the platform's. */
import { loadNativeEd25519 } from '../../native/load_ed25519'
import { verifySignature } from '../../protocol/ed25519'
import type { Claim } from './context'

const verify = loadNativeEd25519() ?? verifySignature

/**
 * Whether every claim verifies (protocol.md "Signature rule"). On the caller's thread, where a signature costs less
 * processor time than with the round trip to another one (native/README.md).
 */
export function claimsHold(claims: readonly Claim[]): boolean {
  return claims.every(({ signature, body, trading_key }) => verify(signature, body, trading_key))
}
