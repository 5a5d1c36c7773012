import { PAGE_ITEMS_DEFAULT } from '../protocol/limits'
import { Fill, PageQuery, page } from '../protocol/wire/trading'
import { COST, endpoint } from '../server/edge/endpoint'

/** GET /fills: the account's fills in the order of matching, with the same content as on `/ws/fills`. */
export default endpoint(
  {
    summary: 'List own fills',
    description:
      'Each as it stands now, in the order in which they were matched; `seq` is that of its newest event. ' +
      'A further page takes `next_after`, not a `seq`. What changes comes from /events.',
    tag: 'orders',
    bearer: true,
    access: 'read',
    cost: COST.read,
    query: PageQuery,
    answer: { status: 200, body: page(Fill) },
    refuses: ['after_invalid'],
  },
  ({ venue, account_id, query }) =>
    venue.own.fills(account_id, {
      after: query.after ?? 0,
      limit: query.limit ?? PAGE_ITEMS_DEFAULT,
    }),
)
