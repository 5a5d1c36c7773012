/** Everything REST tells of an account: its whole event list and its orders, page by page. */
import type { VenueClient } from '../../client/api/venue_client'
import type { AccountEvent, Order, Page } from '../../protocol/wire'

const LIMIT = 500

async function pages<T>(read: (after: number) => Promise<Page<T>>): Promise<T[]> {
  const items: T[] = []
  let after: number | null = 0
  while (after !== null) {
    const page: Page<T> = await read(after)
    items.push(...page.items)
    after = page.next_after
  }
  return items
}

export function readEvents(client: VenueClient): Promise<AccountEvent[]> {
  return pages((after) => client.events({ after, limit: LIMIT }))
}

/** The open orders and the events, read until no order changed in between. */
export async function readAccount(client: VenueClient): Promise<{ events: AccountEvent[]; open: Order[] }> {
  for (;;) {
    const before = await readEvents(client)
    const open = await pages((after) => client.orders({ status: 'open', after, limit: LIMIT }))
    const events = await readEvents(client)
    const meanwhile = events.slice(before.length)
    if (!meanwhile.some(({ kind }) => kind.startsWith('order.'))) return { events, open }
  }
}
