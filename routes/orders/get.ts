import { PAGE_ITEMS_DEFAULT } from '../../protocol/limits'
import { Order, OrderStatus, page, pageFields } from '../../protocol/wire/trading'
import { exact, SymbolName, t } from '../../protocol/wire/values'
import { COST, endpoint } from '../../server/edge/endpoint'

/** GET /orders: the account's orders, sorted by the seq of their first event, which does not change while paging. */
export default endpoint(
  {
    summary: 'List own orders',
    description:
      'Each as it stands now, in the order in which they were accepted; `seq` is that of its newest event. ' +
      'A further page takes `next_after`, not a `seq`. What changes comes from /events.',
    tag: 'orders',
    bearer: true,
    access: 'read',
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
      after: after ?? 0,
      limit: limit ?? PAGE_ITEMS_DEFAULT,
      status,
      symbol,
    }),
)
