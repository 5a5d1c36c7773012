import { COST, endpoint, integerOf, t } from './_endpoint'
import { LIMIT_DEFAULT, page, pageFields } from './_event_shapes'
import { Order, OrderStatus } from './_order_shapes'
import { exact, SymbolName } from './_wire'

/** GET /orders: the account's orders by seq. */
export default endpoint(
  {
    summary: 'List own orders',
    tag: 'orders',
    bearer: true,
    cost: COST.read,
    query: exact({
      ...pageFields,
      status: t.Optional(t.Union([t.Literal('open'), OrderStatus])),
      symbol: t.Optional(SymbolName),
    }),
    answer: { status: 200, body: page(Order) },
  },
  ({ venue, account_id, query: { after, limit, status, symbol } }) =>
    venue.own.orders(account_id, {
      after: integerOf(after, 0),
      limit: integerOf(limit, LIMIT_DEFAULT),
      status,
      symbol,
    }),
)
