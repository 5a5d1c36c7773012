/** Continuation anchors: the pool a place signature binds (protocol.md "Continuation anchors"). */
import { equalBytes, isZero, utf8 } from './bytes'
import { isFieldElement } from './field'
import { sha256 } from './sha256'

export const ANCHORS_MAX = 16
const DOMAIN = utf8('tacit/anchors/v1')

/** 1 to 16 distinct, non-zero field elements. */
export function areAnchors(anchors: Uint8Array[]): boolean {
  if (anchors.length < 1 || anchors.length > ANCHORS_MAX) return false
  if (!anchors.every((anchor) => isFieldElement(anchor) && !isZero(anchor))) return false
  return anchors.every((anchor, at) => !anchors.slice(at + 1).some((other) => equalBytes(anchor, other)))
}

/** SHA-256("tacit/anchors/v1" ‖ anchors in order). Fill j uses anchor `j mod count`. */
export function anchorPoolHash(anchors: Uint8Array[]): Uint8Array {
  return sha256(DOMAIN, ...anchors)
}
