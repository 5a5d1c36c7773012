/** One socket = one contract; its path comes from the file's name. The protocol of frames is the same for all. */
import type { EventKind } from '../protocol/wire'
import type { Op } from './_ops'

export { COMMON_OPS, TRADING_OPS } from './_ops'

export type StreamContract = {
  /** Named in `hello`. */
  readonly name: 'trading' | 'orders' | 'fills'
  readonly summary: string
  readonly description: string
  /** Which of the account's events are pushed. */
  readonly kinds: (kind: EventKind) => boolean
  /** What clients may send, by `op`. */
  readonly ops: Readonly<Record<string, Op>>
  /** Whether the live orders are sent to a reader that does not resume. */
  readonly snapshot: boolean
}
export type Stream = { readonly kind: 'stream'; readonly contract: StreamContract }

export function stream(contract: StreamContract): Stream {
  return { kind: 'stream', contract }
}
