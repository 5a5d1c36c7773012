import { COST, endpoint, integerOf, t } from '../server/edge/endpoint'
import { PAGE_ITEMS_DEFAULT } from '../server/limits'
import { page, pageFields } from '../server/shapes/events'
import { Order, OrderStatus } from '../server/shapes/orders'
import { exact, SymbolName } from '../server/shapes/wire'

/** GET /orders: the account's orders, sorted by the seq of their first event, which does not change while paging. */
export default endpoint(
  {
    summary: 'List own orders',
    description:
      'Each as it stands now, in the order in which they were accepted; `seq` is that of its newest event. ' +
      'A further page takes `next_after`, not a `seq`. What changes comes from /events.',
    tag: 'orders',
    bearer: true,
    cost: COST.read,
    query: exact({
      ...pageFields,
      status: t.Optional(t.Union([t.Literal('open'), OrderStatus])),
      symbol: t.Optional(SymbolName),
    }),
    answer: { status: 200, body: page(Order) },
    refuses: ['instrument_unknown', 'after_invalid'],
  },
  ({ venue, account_id, query: { after, limit, status, symbol } }) =>
    venue.own.orders(account_id, {
      after: integerOf(after, 0),
      limit: integerOf(limit, PAGE_ITEMS_DEFAULT),
      status,
      symbol,
    }),
)
