import { COST, endpoint, integerOf } from './_endpoint'
import { LIMIT_DEFAULT, PageQuery, page } from './_event_shapes'
import { Fill } from './_order_shapes'

/** GET /fills: the account's fills by seq, the same facts as `/ws/fills`. */
export default endpoint(
  {
    summary: 'List own fills',
    tag: 'orders',
    bearer: true,
    cost: COST.read,
    query: PageQuery,
    answer: { status: 200, body: page(Fill) },
  },
  ({ venue, account_id, query }) =>
    venue.own.fills(account_id, {
      after: integerOf(query.after, 0),
      limit: integerOf(query.limit, LIMIT_DEFAULT),
    }),
)
