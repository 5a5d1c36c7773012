/** Reads an account over REST: its whole event list and its orders, page by page. */
import type { VenueClient } from '../../../client/api/venue_client'
import type { AccountEvent, Order, Page } from '../../../protocol/wire/trading'

const LIMIT = 500

async function pages<T>(read: (after: number) => Promise<Page<T>>, from = 0): Promise<T[]> {
  const items: T[] = []
  let after: number | null = from
  while (after !== null) {
    const page: Page<T> = await read(after)
    items.push(...page.items)
    after = page.next_after
  }
  return items
}

/** The events behind seq `from`. */
export function readEvents(client: VenueClient, from = 0): Promise<AccountEvent[]> {
  return pages((after) => client.events({ after, limit: LIMIT }), from)
}

/** The open orders and the events behind those already known, read until no order changed in between. */
export async function readAccount(
  client: VenueClient,
  known: readonly AccountEvent[] = [],
): Promise<{ events: AccountEvent[]; open: Order[] }> {
  for (const events = [...known]; ; ) {
    events.push(...(await readEvents(client, events.length)))
    const open = await pages((after) => client.orders({ status: 'open', after, limit: LIMIT }))
    const meanwhile = await readEvents(client, events.length)
    events.push(...meanwhile)
    if (!meanwhile.some(({ kind }) => kind.startsWith('order.'))) return { events, open }
  }
}
