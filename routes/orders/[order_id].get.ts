import { Order, OrderTextPath } from '../../protocol/wire/trading'
import { COST, endpoint } from '../../server/edge/endpoint'

/** GET /orders/{order_id}: an own order with its fills, live or final. */
export default endpoint(
  {
    summary: 'Read one order',
    tag: 'orders',
    bearer: true,
    access: 'read',
    cost: COST.read,
    params: OrderTextPath,
    answer: { status: 200, body: Order },
    refuses: ['not_owner', 'order_unknown'],
  },
  ({ venue, account_id, params }) => venue.own.order(account_id, params.order_id),
)
