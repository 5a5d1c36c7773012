/** Reads what a program was sent by programs in one landed transaction, its own events among it, as RPC nodes tell it. */
import { decodeLongBase58 } from '../long_base58'

/** Of `meta.innerInstructions`: what the outer instruction `index` called, in order; `data` is base58. */
export type InnerGroup = {
  readonly index: number
  readonly instructions: readonly { readonly programIdIndex: number; readonly data: string }[]
}

/** `outer` and `inner` are the places of the outer instruction and of the inner one among all it led to. */
export type InnerData = { outer: number; inner: number; data: Uint8Array }

/**
 * In the order of execution. What names no account, or is no base58, is left out: no honest node tells it.
 * @param addresses every account the transaction names: its own, then those loaded to write, then those loaded to read
 */
export function innerDataOf(
  program: string,
  addresses: readonly string[],
  groups: readonly InnerGroup[] | null | undefined,
): InnerData[] {
  const found: InnerData[] = []
  for (const { index: outer, instructions } of groups ?? []) {
    for (const [inner, { programIdIndex, data: text }] of instructions.entries()) {
      if (addresses[programIdIndex] !== program) continue
      const data = decodeLongBase58(text)
      if (data !== undefined) found.push({ outer, inner, data })
    }
  }
  return found
}
