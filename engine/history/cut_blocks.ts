/** Cuts an account's new events into the blocks they are sealed and deleted in. */
import type * as wire from '../../protocol/wire'

/** One seal and one row serve so many events; reading one of them opens them all. */
const BLOCK_EVENTS = 32
/** Events of an order with many fills are long. */
const BLOCK_CHARACTERS = 32_768
/** A block is deleted when its last event is old, so its events are of about one time. */
const BLOCK_SPAN_MS = 60_000

export type NewBlock = { seq_first: number; seq_last: number; unix_ms: number; text: string }

/** `events[i]` is parsed from `lines[i]`; both in order, without a gap. */
export function* cutBlocks(
  lines: readonly string[],
  events: readonly wire.AccountEvent[],
): Generator<NewBlock> {
  let from = 0
  let characters = 0
  for (let at = 0; at < events.length; at++) {
    characters += lines[at]!.length
    const count = at - from
    const late = events[at]!.unix_ms - events[from]!.unix_ms > BLOCK_SPAN_MS
    if (count > 0 && (count === BLOCK_EVENTS || late || characters > BLOCK_CHARACTERS)) {
      yield blockOf(lines, events, from, at)
      from = at
      characters = lines[at]!.length
    }
  }
  if (from < events.length) yield blockOf(lines, events, from, events.length)
}

function blockOf(
  lines: readonly string[],
  events: readonly wire.AccountEvent[],
  from: number,
  to: number,
): NewBlock {
  const last = events[to - 1]!
  return {
    seq_first: events[from]!.seq,
    seq_last: last.seq,
    unix_ms: last.unix_ms,
    text: lines.slice(from, to).join('\n'),
  }
}
