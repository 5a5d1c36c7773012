/** Serialises an event once: its answers, its stored block and its reads are parts of that text. */

import type * as wire from '../../protocol/wire/trading'
import type { NewEvent } from './contract'

const NONE: readonly NewEvent[] = []

export function withTexts(
  events: readonly { account_id: string; event: wire.AccountEvent }[],
): readonly NewEvent[] {
  if (events.length === 0) return NONE
  return events.map(({ account_id, event }) => ({ account_id, event, text: JSON.stringify(event) }))
}

/** The text of an event's `data`, the last field. */
export function dataText(event_text: string): string {
  const at = event_text.indexOf('"data":')
  if (at < 0) throw new Error('not an event')
  return event_text.slice(at + '"data":'.length, -1)
}

/** Whether the order of an event has no fills, without parsing it. */
export function isUnfilled(event_text: string): boolean {
  return event_text.includes('"filled_amount":"0"')
}

/** The slot of a fill: the only field of this name. */
export function slotOf(fill_text: string): number {
  return Number(/"slot":(\d+)/.exec(fill_text)![1])
}

/** The order with its fills replaced by these. */
export function withFills(order: wire.Order, fill_texts: readonly string[]): string {
  // A function, because `$` is special in a replacement string.
  return JSON.stringify({ ...order, fills: [] }).replace(
    '"fills":[]',
    () => `"fills":[${fill_texts.join(',')}]`,
  )
}
