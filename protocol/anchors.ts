/** Continuation anchors: the pool a place signature binds (protocol.md "Continuation anchors"). */
import { equalBytes, isZero, utf8 } from './bytes'
import { isFieldElement } from './field'
import { sha256 } from './sha256'

export const ANCHORS_MAX = 16
const DOMAIN = utf8('tacit/anchors/v1')

/** 1 to 16 distinct, non-zero field elements. */
export function areAnchors(anchors: Uint8Array[]): boolean {
  if (anchors.length < 1 || anchors.length > ANCHORS_MAX) return false
  for (let at = 0; at < anchors.length; at++) {
    const anchor = anchors[at]!
    if (!isFieldElement(anchor) || isZero(anchor)) return false
    for (let before = 0; before < at; before++) if (equalBytes(anchors[before]!, anchor)) return false
  }
  return true
}

/** SHA-256("tacit/anchors/v1" ‖ anchors in order). Fill j uses anchor `j mod count`. */
export function anchorPoolHash(anchors: Uint8Array[]): Uint8Array {
  return sha256(DOMAIN, ...anchors)
}
