/** Owns the text of an event: it is serialised once, and what is sent, sealed and read later are parts of that text. */
import type * as wire from '../../protocol/wire/trading'
import type { NewEvent } from './contract'

export function withTexts(events: readonly { account_id: string; event: wire.AccountEvent }[]): NewEvent[] {
  return events.map(({ account_id, event }) => ({ account_id, event, text: JSON.stringify(event) }))
}

/** The text of an event's `data`, which stands last in it. */
export function dataText(event_text: string): string {
  const at = event_text.indexOf('"data":')
  if (at < 0) throw new Error('not an event')
  return event_text.slice(at + '"data":'.length, -1)
}

/** An order nothing of which was filled has no fills of its own either. */
export function isUnfilled(order_text: string): boolean {
  return order_text.includes('"filled_amount":"0"')
}

/** The order with these fills in the place of its own. */
export function withFills(order: wire.Order, fill_texts: readonly string[]): string {
  // A function, as `$` means something in a replacement text.
  return JSON.stringify({ ...order, fills: [] }).replace(
    '"fills":[]',
    () => `"fills":[${fill_texts.join(',')}]`,
  )
}
