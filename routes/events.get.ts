import { PAGE_ITEMS_DEFAULT } from '../protocol/limits'
import { AccountEvent, PageQuery, page } from '../protocol/wire/trading'
import { COST, endpoint } from '../server/edge/endpoint'

/** GET /events: the account's numbered events, the same objects and numbers as on the sockets. */
export default endpoint(
  {
    summary: 'List own events',
    description:
      'Numbered without a gap per account, across restarts; `after` may be any seq seen, here or on a socket.',
    tag: 'orders',
    bearer: true,
    access: 'read',
    cost: COST.read,
    query: PageQuery,
    answer: { status: 200, body: page(AccountEvent) },
    refuses: ['after_invalid'],
  },
  ({ venue, account_id, query }) =>
    venue.own.events(account_id, {
      after: query.after ?? 0,
      limit: query.limit ?? PAGE_ITEMS_DEFAULT,
    }),
)
