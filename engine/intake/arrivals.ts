/** Verifies the signatures of commands: those that arrive in one turn of the event loop together, which takes less time. */
import { loadNativeEd25519, type SignedMessage } from '../../native/load_ed25519'
import { loadNativePoseidon } from '../../native/load_poseidon'
import { verifySignature } from '../../protocol/ed25519'
import { LIMITS } from '../limits'

const compiled = loadNativeEd25519()
const verify =
  compiled ??
  ((claims: readonly SignedMessage[]) =>
    claims.map(({ signature, message, public_key }) => verifySignature(signature, message, public_key)))

/** Names the functions that run without a compiled library, because that is absent, damaged or for another machine. */
export function portableCode(): string[] {
  return [
    ...(compiled === undefined ? ['signatures (Ed25519)'] : []),
    ...(loadNativePoseidon() === undefined ? ['hashes of notes (Poseidon)'] : []),
  ]
}

/** Calls back whether every claim verifies (protocol.md "Signature rule"). */
export type VerifyClaims = (claims: readonly SignedMessage[], verified: (holds: boolean) => void) => void

/**
 * Before it returns. On the caller's thread, where a signature costs less processor time than with the round trip to another
 * one (native/README.md).
 */
export const verifyAtOnce: VerifyClaims = (claims, verified) => verified(verify(claims).every(Boolean))

/** None of these claims is lost with another that cannot be read, as one of a detached buffer. */
function verdictsOf(claims: readonly SignedMessage[]): boolean[] {
  try {
    return verify(claims)
  } catch {
    return claims.map((one) => {
      try {
        return verify([one])[0]!
      } catch {
        return false
      }
    })
  }
}

type Arrival = { claims: readonly SignedMessage[]; verified: (holds: boolean) => void }

/** Commands that wait for the end of the turn in which they arrived, in order. */
export class Arrivals {
  private waiting: Arrival[] = []
  private count = 0

  readonly verify: VerifyClaims = (claims, verified) => {
    if (this.waiting.length === 0) setImmediate(this.flush)
    this.waiting.push({ claims, verified })
    this.count += claims.length
    if (this.count >= LIMITS.verified_together_max) this.flush()
  }

  /** Verifies what waits. A command that must not overtake those that arrived before it is submitted behind this. */
  readonly flush = (): void => {
    const { waiting } = this
    if (waiting.length === 0) return
    this.waiting = []
    this.count = 0
    const verdicts = verdictsOf(waiting.flatMap(({ claims }) => claims))
    let next = 0
    for (const { claims, verified } of waiting) {
      const end = next + claims.length
      verified(verdicts.slice(next, end).every(Boolean))
      next = end
    }
  }
}
