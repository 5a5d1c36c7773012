/** Reads what a program was sent by programs in one landed transaction, its own events among it, as RPC nodes tell it. */
import { decodeLongBase58 } from '../long_base58'

/** Of `meta.innerInstructions`: what the outer instruction `index` called, in order; `data` is base58. */
export type InnerGroup = {
  readonly index: number
  readonly instructions: readonly { readonly programIdIndex: number; readonly data: string }[]
}

/** The accounts a transaction names: its own, and those that lookup tables load. */
export type NamedAccounts = {
  readonly own: readonly string[]
  readonly loaded?:
    | { readonly writable: readonly string[]; readonly readonly: readonly string[] }
    | null
    | undefined
}

/** Most a program can be sent by a program (Agave, MAX_INSTRUCTION_DATA_LEN: 10 KiB), as base58. */
const TEXT_MAX = Math.ceil(10_240 * 1.366)

/** `outer` and `inner` are the places of the outer instruction and of the inner one among all it led to. */
export type InnerData = { outer: number; inner: number; data: Uint8Array }

/**
 * In the order of execution. What names no account, is no base58 or longer than any program is sent, is left out: no
 * honest node tells it.
 */
export function innerDataOf(
  program: string,
  { own, loaded }: NamedAccounts,
  groups: readonly InnerGroup[] | null | undefined,
): InnerData[] {
  const addresses = [...own, ...(loaded?.writable ?? []), ...(loaded?.readonly ?? [])]
  const found: InnerData[] = []
  for (const { index: outer, instructions } of groups ?? []) {
    for (const [inner, { programIdIndex, data: text }] of instructions.entries()) {
      if (addresses[programIdIndex] !== program || text.length > TEXT_MAX) continue
      const data = decodeLongBase58(text)
      if (data !== undefined) found.push({ outer, inner, data })
    }
  }
  return found
}
