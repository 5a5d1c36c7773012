import { COST, endpoint, integerOf } from '../server/edge/endpoint'
import { PAGE_ITEMS_DEFAULT } from '../server/limits'
import { AccountEvent, PageQuery, page } from '../server/shapes/events'

/** GET /events: the account's numbered events, the same objects and numbers as on the sockets. */
export default endpoint(
  {
    summary: 'List own events',
    description:
      'Numbered without a gap per account, across restarts; `after` may be any seq seen, here or on a socket.',
    tag: 'orders',
    bearer: true,
    cost: COST.read,
    query: PageQuery,
    answer: { status: 200, body: page(AccountEvent) },
    refuses: ['after_invalid'],
  },
  ({ venue, account_id, query }) =>
    venue.own.events(account_id, {
      after: integerOf(query.after, 0),
      limit: integerOf(query.limit, PAGE_ITEMS_DEFAULT),
    }),
)
